#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/layer.hpp"
#include "data/operators/activation.hpp"
#include "data/operators/attention.hpp"
#include "data/operators/conv_transpose2d.hpp"
#include "data/operators/elementwise.hpp"
#include "data/operators/pool2d.hpp"

namespace forecost {
namespace {

using testing::HasSubstr;

/// FLOPs, bytes read and written of a pass, and its parameters.
struct Expected {
  double flops, bytes_read, bytes_written, parameters = 0, padding_flops = 0;
};

void expect_work(const Work& work, const Expected& expected, const std::string& of) {
  EXPECT_EQ(work.flops, expected.flops) << of;
  EXPECT_EQ(work.bytes_read, expected.bytes_read) << of;
  EXPECT_EQ(work.bytes_written, expected.bytes_written) << of;
  EXPECT_EQ(work.parameters, expected.parameters) << of;
  EXPECT_DOUBLE_EQ(work.padding_flops, expected.padding_flops) << of;
}

void expect_work(const std::string& layer, Pass pass, const Expected& expected,
                 DType dtype = DType::f32) {
  expect_work(Layer::parse(layer).work(pass, dtype), expected,
              layer + " " + std::string(name_of(pass)));
}

std::string error_of(const std::string& layer) {
  try {
    Layer::parse(layer);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

/// One valid layer of each operator.
Layer smallest(const Operator& op) {
  std::vector<std::int64_t> values;
  for (const ParameterInfo& p : op.parameters) values.push_back(p.default_value.value_or(p.min));
  return Layer::of_values(op, values);
}

// What the registry promises of any operator, those to come included.
TEST(Operators, AllKeepWhatTheRegistryPromises) {
  for (const Operator* op : operators()) {
    SCOPED_TRACE(std::string(op->name));
    EXPECT_EQ(op->parameters[0].name, "batch");
    EXPECT_LE(op->parameters.size(), Layer::max_parameters);
    const Layer layer = smallest(*op);
    EXPECT_EQ(Layer::parse(layer.text()), layer);
    EXPECT_GT(op->input_elements(layer), 0);
    EXPECT_GT(op->output_elements(layer), 0);
    EXPECT_EQ(op->has(Pass::update), layer.parameter_count() > 0);
    EXPECT_TRUE(op->has(Pass::forward));
    // The gradient is joint, or split in two, but not both; what only moves data has none.
    const bool moves_data = op->name == "transfer" || op->name == "allreduce";
    EXPECT_EQ(op->has(Pass::backward) + op->has(Pass::backward_data), moves_data ? 0 : 1);
    EXPECT_EQ(op->has(Pass::backward_weights), op->has(Pass::backward_data));
    EXPECT_EQ(op->has(Pass::training_step), op->has(Pass::update));
    for (const ParameterInfo& parameter : op->parameters) {
      EXPECT_FALSE(parameter.description.empty()) << parameter.name;
      if (parameter.value_names.empty()) continue;
      EXPECT_EQ(parameter.min, 0) << parameter.name;
      EXPECT_EQ(parameter.max + 1, std::ssize(parameter.value_names)) << parameter.name;
    }
    for (std::size_t i = 0; i < EnumNames<Pass>::names.size(); ++i) {
      const Pass pass = static_cast<Pass>(i);
      if (op->has(pass)) {
        EXPECT_GT(layer.work(pass, DType::f32, Optimizer::sgd).bytes(), 0) << name_of(pass);
      } else {
        EXPECT_THROW((void)layer.work(pass, DType::f32, Optimizer::sgd), UsageError)
            << name_of(pass);
      }
    }
  }
}

TEST(Operators, TextLeavesDefaultsOutAndReadsBack) {
  for (const std::string text : {
           "matmul batch=12 m=128 n=64 k=32",
           "layer_norm batch=8 features=768",
           "layer_norm batch=8 rows=128 features=768 affine=0",
           "softmax batch=8 features=1000",
           "softmax batch=8 rows=1536 features=128",
           "elementwise batch=8 features=768 operation=power",
           "elementwise batch=8 features=768 operation=add operand=scalar",
           "activation batch=8 features=3072 function=relu",
           "activation batch=8 features=3072 function=gelu",
           "conv_transpose2d batch=8 in_channels=64 out_channels=32 in_h=14 in_w=14 kernel_h=4 "
           "kernel_w=4 stride_h=2 stride_w=2 pad_top=1 pad_bottom=1 pad_left=1 pad_right=1 bias=0",
           "pool2d batch=8 channels=64 in_h=112 in_w=112 kernel_h=3 kernel_w=3 stride_h=2 "
           "stride_w=2 pad_bottom=1 pad_right=1 mode=max",
           "pool2d batch=8 channels=2048 in_h=7 in_w=7 mode=global_average",
           "batch_norm batch=8 channels=64 height=56 width=56",
           "batch_norm batch=8 channels=64 training=0",
           "attention batch=8 heads=12 query_length=1 key_length=1024 head_features=64",
           "attention batch=8 heads=12 query_length=128 key_length=128 head_features=64 causal=1",
           "rnn batch=8 steps=35 in_features=650 hidden_features=650 layers=2 cell=lstm",
           "rnn batch=8 steps=35 in_features=650 hidden_features=650 bidirectional=1 cell=vanilla",
           "embedding batch=8 length=128 entries=30522 features=768",
           "dropout batch=8 features=4096",
           "reduce batch=8 features=1000 operation=max axis=features",
           "reduce batch=8 rows=128 features=768 operation=mean axis=rows",
           "transfer batch=8 features=150528 direction=host_to_device",
           "transfer batch=8 features=150528 direction=device_to_host pinned=0",
           "allreduce batch=1 elements=25557032 ranks=8",
           "allreduce batch=1 elements=25557032 ranks=8 nodes=2",
       }) {
    EXPECT_EQ(Layer::parse(text).text(), text);
  }
  const Layer norm("layer_norm", {{"batch", 8}, {"rows", 1}, {"features", 768}, {"affine", 1}});
  EXPECT_EQ(norm.text(), "layer_norm batch=8 features=768");
}

TEST(Operators, RefuseWhatCannotBe) {
  EXPECT_EQ(error_of("matmul batch=1 m=2 n=3"), "matmul: parameter k is missing");
  EXPECT_EQ(error_of("matmul batch=1 m=0 n=3 k=4"), "matmul: m=0: expected 1 to 1048576");
  EXPECT_EQ(error_of("layer_norm batch=1 features=0"),
            "layer_norm: features=0: expected 1 to 4194304");
  EXPECT_EQ(error_of("layer_norm batch=1 features=8 affine=2"),
            "layer_norm: affine=2: expected 0 to 1");
  EXPECT_EQ(error_of("softmax batch=1 rows=0 features=8"),
            "softmax: rows=0: expected 1 to 1048576");
  EXPECT_EQ(error_of("elementwise batch=1 features=8"),
            "elementwise: parameter operation is missing");
  EXPECT_THAT(error_of("elementwise batch=1 features=8 operation=modulo"),
              HasSubstr("operation='modulo'"));
  EXPECT_EQ(error_of("elementwise batch=1 features=8 operation=add operand=2"),
            "elementwise: operand=2: expected 0 to 1");
  EXPECT_EQ(error_of("activation batch=1 features=8"), "activation: parameter function is missing");
  EXPECT_EQ(error_of("activation batch=1 features=8 function=5"),
            "activation: function=5: expected 0 to 4");

  const std::string transposed =
      "conv_transpose2d batch=1 in_channels=4 out_channels=6 in_h=1 in_w=5 kernel_h=3 kernel_w=3";
  EXPECT_EQ(error_of(transposed + " groups=4"),
            "conv_transpose2d: in_channels=4 and out_channels=6 must be multiples of groups=4");
  EXPECT_EQ(error_of(transposed + " pad_top=2 pad_bottom=1"),
            "conv_transpose2d: pads of 2+1 rows and 0+0 columns leave nothing of an output of 3x7; "
            "expected smaller ones");
  EXPECT_EQ(error_of(transposed + " pad_top=1 pad_bottom=1"), "no error");

  const std::string pool = "pool2d batch=1 channels=4 in_h=2 in_w=5";
  EXPECT_EQ(error_of(pool), "pool2d: parameter mode is missing");
  EXPECT_EQ(error_of(pool + " kernel_h=3 kernel_w=3 mode=max"),
            "pool2d: a kernel of 3x3 does not fit into a padded input of 2x5");
  EXPECT_EQ(error_of(pool + " kernel_h=3 kernel_w=3 pad_top=1 mode=max"), "no error");
  EXPECT_EQ(error_of(pool + " kernel_h=2 kernel_w=3 pad_right=3 mode=average"),
            "pool2d: with pads of 0, 0, 0 and 3 a window of 2x3 would see padding alone; expected "
            "pads smaller than the kernel");
  for (const std::string key : {"kernel_h=2", "stride_w=2", "pad_bottom=1"}) {
    EXPECT_EQ(error_of(pool + " mode=global_average " + key),
              "pool2d: global_average takes the whole image; expected no " +
                  key.substr(0, key.size() - 2) + " beside it, found " + key.back());
  }

  EXPECT_EQ(error_of("batch_norm batch=1 channels=8 training=2"),
            "batch_norm: training=2: expected 0 to 1");
  EXPECT_EQ(error_of("attention batch=1 heads=1 query_length=3 key_length=2 head_features=8 "
                     "causal=1"),
            "attention: causal=1 with query_length=3 above key_length=2: queries are the last "
            "positions of the keys' sequence");
  EXPECT_EQ(error_of("rnn batch=1 steps=2 in_features=3 hidden_features=4"),
            "rnn: parameter cell is missing");
  EXPECT_EQ(error_of("embedding batch=1 features=4"), "embedding: parameter entries is missing");
  EXPECT_EQ(error_of("dropout batch=1 features=0"),
            "dropout: features=0: expected 1 to 4294967296");
  EXPECT_EQ(error_of("reduce batch=1 features=4 operation=sum"),
            "reduce: parameter axis is missing");
  EXPECT_THAT(error_of("transfer batch=1 features=4 direction=device_to_device pinned=0"),
              HasSubstr("pinned=0 with direction=device_to_device, which has no host memory"));
  EXPECT_EQ(error_of("allreduce batch=2 elements=4 ranks=2"),
            "allreduce: batch=2: expected 1 to 1");
  EXPECT_EQ(error_of("allreduce batch=1 elements=4 ranks=1"),
            "allreduce: ranks=1: expected 2 to 1048576");
  EXPECT_EQ(error_of("allreduce batch=1 elements=4 ranks=2 nodes=3"),
            "allreduce: ranks=2 on nodes=3; expected the same number on each node");
}

TEST(Operators, ElementsOfTheLargestLayersFitIn64Bits) {
  for (const Operator* op : operators()) {
    // Images are larger than any memory long before all of their sides are at their limits.
    if (op->index_of("in_h") || op->index_of("height")) continue;
    std::vector<std::int64_t> values;
    for (const ParameterInfo& p : op->parameters) {
      values.push_back(p.value_names.empty() && !(p.min == 0 && p.max == 1) ? p.max : p.min);
    }
    const Layer layer = Layer::of_values(*op, values);
    double product = 1;
    for (const std::int64_t v : values) product *= v > 0 ? static_cast<double>(v) : 1;
    for (const std::int64_t elements :
         {op->input_elements(layer), op->output_elements(layer), layer.parameter_count()}) {
      EXPECT_GE(elements, 0) << op->name;
      EXPECT_LE(static_cast<double>(elements), 4 * product) << op->name;
    }
  }
}

// Two products of 3x5 by 5x4. A 2*15 = 30, B 2*20 = 40, C 2*12 = 24 elements; 2*3*4*5 = 120
// multiply-adds. The two gradients are as many multiply-adds each.
TEST(Operators, Matmul) {
  const std::string layer = "matmul batch=2 m=3 n=4 k=5";
  expect_work(layer, Pass::forward, {240, 4 * (30 + 40), 4 * 24});
  expect_work(layer, Pass::backward, {480, 4 * (24 + 30 + 40), 4 * (30 + 40)});
  expect_work(layer, Pass::backward, {480, 2 * 94, 2 * 70}, DType::bf16);
  EXPECT_EQ(find_operator("matmul").input_elements(Layer::parse(layer)), 70);
  EXPECT_EQ(find_operator("matmul").output_elements(Layer::parse(layer)), 24);
  EXPECT_EQ(family_of(find_operator("matmul"), Pass::backward), Family::gemm);
}

// 2*3*4 = 24 elements; gain and bias of 4.
TEST(Operators, LayerNorm) {
  const std::string layer = "layer_norm batch=2 rows=3 features=4";
  expect_work(layer, Pass::forward, {7 * 24, 4 * (24 + 8), 4 * 24, 8});
  expect_work(layer, Pass::backward, {13 * 24, 4 * (24 + 24 + 4), 4 * (24 + 8), 8});
  const std::string plain = layer + " affine=0";
  expect_work(plain, Pass::forward, {5 * 24, 4 * 24, 4 * 24});
  expect_work(plain, Pass::backward, {9 * 24, 4 * 48, 4 * 24});
  EXPECT_EQ(Layer::parse(plain).parameter_count(), 0);

  const Layer l = Layer::parse(layer);
  EXPECT_EQ(l.op().parameter_tensors(l), (std::vector<std::int64_t>{4, 4}));
  // Momentum: 4 FLOPs; reads parameter, gradient and one state, writes parameter and state.
  expect_work(l.work(Pass::update, DType::f32, Optimizer::momentum), {32, 12 * 8, 8 * 8, 8},
              "update");
  expect_work(l.work(Pass::training_step, DType::f32, Optimizer::momentum),
              {7 * 24 + 13 * 24 + 32, 4 * 32 + 4 * 52 + 96, 4 * 24 + 4 * 32 + 64, 8},
              "training_step");
}

// 2*3*4 = 24 elements.
TEST(Operators, Softmax) {
  const std::string layer = "softmax batch=2 rows=3 features=4";
  expect_work(layer, Pass::forward, {5 * 24, 4 * 24, 4 * 24});
  expect_work(layer, Pass::backward, {4 * 24, 4 * 48, 4 * 24});
  expect_work(layer, Pass::backward, {4 * 24, 2 * 48, 2 * 24}, DType::f16);
}

// 2*4 = 8 elements. By operation: FLOPs per element of the gradients, and tensors they read.
TEST(Operators, Elementwise) {
  struct Case {
    std::string operation;
    double tensor_flops, tensor_reads, scalar_flops, scalar_reads;
  };
  const std::vector<Case> cases{{"add", 0, 1, 0, 1},
                                {"subtract", 1, 1, 0, 1},
                                {"multiply", 2, 3, 1, 1},
                                {"divide", 3, 3, 1, 1},
                                {"power", 7, 4, 3, 2}};
  ASSERT_EQ(cases.size(), EnumNames<ElementwiseOperation>::names.size());
  for (const Case& c : cases) {
    const std::string tensor = "elementwise batch=2 features=4 operation=" + c.operation;
    expect_work(tensor, Pass::forward, {8, 4 * 16, 4 * 8});
    expect_work(tensor, Pass::backward, {8 * c.tensor_flops, 32 * c.tensor_reads, 4 * 16});
    const std::string scalar = tensor + " operand=scalar";
    expect_work(scalar, Pass::forward, {8, 4 * 8, 4 * 8});
    expect_work(scalar, Pass::backward, {8 * c.scalar_flops, 32 * c.scalar_reads, 4 * 8});
    EXPECT_EQ(find_operator("elementwise").input_elements(Layer::parse(tensor)), 16);
    EXPECT_EQ(find_operator("elementwise").input_elements(Layer::parse(scalar)), 8);
    EXPECT_EQ(find_operator("elementwise").output_elements(Layer::parse(tensor)), 8);
  }
}

// 2*4 = 8 elements.
TEST(Operators, Activation) {
  struct Case {
    std::string function;
    double forward_flops, backward_flops;
  };
  const std::vector<Case> cases{
      {"relu", 1, 1}, {"tanh", 1, 3}, {"sigmoid", 3, 3}, {"gelu", 5, 11}, {"silu", 4, 8}};
  ASSERT_EQ(cases.size(), EnumNames<ActivationFunction>::names.size());
  for (const Case& c : cases) {
    const std::string layer = "activation batch=2 features=4 function=" + c.function;
    expect_work(layer, Pass::forward, {8 * c.forward_flops, 32, 32});
    expect_work(layer, Pass::backward, {8 * c.backward_flops, 64, 32});
  }
}

// 2 items of 4 channels of 3x2, stride 2, into 6 channels of 3x3 kernels: 7x5 less 1 above and 1
// before is 6x4. Two groups: each input element meets 3 channels of 9 taps: 2*4*6*27 = 1296
// multiply-adds. Of the rows of taps, 3 rows by 3, one falls onto the pad: 8/9; of the columns, 2
// by 3, one: 5/6. So 40/54 is kept and 14/54 * 1296 = 336 is padding. Input 48, output 2*6*24 =
// 288, weights 4*3*9 = 108, bias 6.
TEST(Operators, ConvTranspose2d) {
  const std::string layer =
      "conv_transpose2d batch=2 in_channels=4 out_channels=6 in_h=3 in_w=2 kernel_h=3 kernel_w=3 "
      "stride_h=2 stride_w=2 pad_top=1 pad_left=1 groups=2";
  expect_work(layer, Pass::forward, {2 * 1296 + 288, 4 * (48 + 108 + 6), 4 * 288, 114, 2 * 336});
  expect_work(layer, Pass::backward_data, {2 * 1296, 4 * (288 + 108), 4 * 48, 114, 2 * 336});
  expect_work(layer, Pass::backward_weights,
              {2 * 1296 + 288, 4 * (288 + 48), 4 * (108 + 6), 114, 2 * 336});
  const Layer l = Layer::parse(layer);
  EXPECT_EQ(l.op().parameter_tensors(l), (std::vector<std::int64_t>{108, 6}));
  EXPECT_EQ(conv_transpose2d_shape(l).out_h(), 6);
  EXPECT_EQ(conv_transpose2d_shape(l).out_w(), 4);
  // What it is the input gradient of: a convolution of 6x4 that gives 3x2.
  EXPECT_EQ(conv_transpose2d_shape(l).vertical().out(), 3);
  EXPECT_EQ(conv_transpose2d_shape(l).horizontal().out(), 2);
  EXPECT_EQ(Layer::parse(layer + " bias=0").parameter_count(), 108);
  EXPECT_EQ(conv_transpose2d_shape(l.with("dilation_h", 2)).out_h(), 8);
  // "same": the output is side * stride.
  const auto pads = l.op().same_padding(3, 5, 2, 1);
  EXPECT_EQ(pads.before, 1);
  EXPECT_EQ(pads.after, 2);
}

// 2 items of 3 channels of 5x4; a window of 3x2 every 2 rows and columns with a row of padding
// above and below gives 3x2. Its rows meet 2 + 3 + 2 = 7 rows of the image, its columns 4: 28 taps
// a channel, 168 in all. Input 120, output 36.
TEST(Operators, Pool2d) {
  const std::string layer =
      "pool2d batch=2 channels=3 in_h=5 in_w=4 kernel_h=3 kernel_w=2 stride_h=2 stride_w=2 "
      "pad_top=1 pad_bottom=1 mode=";
  for (const std::string mode : {"max", "average"}) {
    expect_work(layer + mode, Pass::forward, {168, 4 * 120, 4 * 36});
  }
  expect_work(layer + "max", Pass::backward, {36, (4 + 1) * 36, 4 * 120});
  expect_work(layer + "average", Pass::backward, {36 + 168, 4 * 36, 4 * 120});
  const Pool2dShape s = pool2d_shape(Layer::parse(layer + "max"));
  EXPECT_EQ(s.out_h(), 3);
  EXPECT_EQ(s.out_w(), 2);
  // 17*17 = 289 taps: the place of the largest needs more than a byte.
  const std::string wide = "pool2d batch=1 channels=1 in_h=17 in_w=17 kernel_h=17 kernel_w=17 ";
  expect_work(wide + "mode=max", Pass::backward, {1, 4 + 4, 4 * 289});
  expect_work(wide + "mode=max", Pass::backward, {1, 2 + 4, 2 * 289}, DType::bf16);

  const std::string global = "pool2d batch=2 channels=3 in_h=5 in_w=4 mode=global_average";
  expect_work(global, Pass::forward, {120, 4 * 120, 4 * 6});
  expect_work(global, Pass::backward, {6 + 120, 4 * 6, 4 * 120});
  EXPECT_EQ(pool2d_shape(Layer::parse(global)).vertical().kernel, 5);
  EXPECT_EQ(find_operator("pool2d").output_elements(Layer::parse(global)), 6);
}

// 2*3*4*5 = 120 elements of 3 channels.
TEST(Operators, BatchNorm) {
  const std::string layer = "batch_norm batch=2 channels=3 height=4 width=5";
  expect_work(layer, Pass::forward, {7 * 120, 4 * (120 + 6), 4 * (120 + 6), 6});
  expect_work(layer, Pass::backward, {13 * 120, 4 * (240 + 9), 4 * (120 + 6), 6});
  const std::string stored = layer + " training=0";
  expect_work(stored, Pass::forward, {2 * 120, 4 * (120 + 12), 4 * 120, 6});
  expect_work(stored, Pass::backward, {6 * 120, 4 * (240 + 9), 4 * (120 + 6), 6});
  const Layer l = Layer::parse(layer);
  EXPECT_EQ(l.op().parameter_tensors(l), (std::vector<std::int64_t>{3, 3}));
  expect_work(l.work(Pass::update, DType::f32, Optimizer::sgd), {12, 8 * 6, 4 * 6, 6}, "update");
}

// 2*3 = 6 heads of 4 queries, 5 keys and 8 features: 120 pairs; Q and O 192, K and V 240 elements.
TEST(Operators, Attention) {
  const std::string layer = "attention batch=2 heads=3 query_length=4 key_length=5 head_features=8";
  expect_work(layer, Pass::forward, {120 * (4 * 8 + 6), 4 * (192 + 480), 4 * 192});
  expect_work(layer, Pass::backward, {120 * (8 * 8 + 5), 4 * (192 + 480 + 192), 4 * (192 + 480)});
  // The queries are positions 2 to 5 of 5: they see 2, 3, 4 and 5 keys, 14 of 20; 6 heads times 6
  // pairs are masked.
  const std::string causal = layer + " causal=1";
  EXPECT_EQ(attention_shape(Layer::parse(causal)).visible_pairs(), 14);
  expect_work(causal, Pass::forward, {120 * 38, 4 * (192 + 480), 4 * 192, 0, 36 * 38});
  expect_work(causal, Pass::backward,
              {120 * 69, 4 * (192 + 480 + 192), 4 * (192 + 480), 0, 36 * 69});
  EXPECT_EQ(family_of(find_operator("attention"), Pass::backward), Family::attention);
}

// 2 items of 3 steps of 4 features into 5: x is 24 elements, a layer's output 30 per direction.
TEST(Operators, Rnn) {
  const std::string shape = "rnn batch=2 steps=3 in_features=4 hidden_features=5 ";
  // One gate: weights 5*4 + 5*5 = 45, two biases of 5.
  expect_work(shape + "cell=vanilla", Pass::forward,
              {2 * 45 * 6 + 4 * 30, 4 * (24 + 55), 4 * 30, 55});
  expect_work(shape + "cell=vanilla", Pass::backward,
              {4 * 45 * 6 + 6 * 30, 4 * (24 + 60 + 55), 4 * (24 + 55), 55});
  // Four and three of them.
  expect_work(shape + "cell=lstm", Pass::forward,
              {2 * 180 * 6 + 27 * 30, 4 * (24 + 220), 4 * 30, 220});
  expect_work(shape + "cell=lstm", Pass::backward,
              {4 * 180 * 6 + 31 * 30, 4 * (24 + 60 + 220), 4 * (24 + 220), 220});
  expect_work(shape + "cell=gru", Pass::forward,
              {2 * 135 * 6 + 21 * 30, 4 * (24 + 165), 4 * 30, 165});
  expect_work(shape + "cell=gru", Pass::backward,
              {4 * 135 * 6 + 24 * 30, 4 * (24 + 60 + 165), 4 * (24 + 165), 165});
  // Two layers in two directions: the upper one reads 10 features. Weights 2*(45 + 5*10 + 25) =
  // 240, biases 2*2*10 = 40; an output has 60 elements.
  const std::string deep = shape + "layers=2 bidirectional=1 cell=vanilla";
  expect_work(deep, Pass::forward, {2 * 240 * 6 + 4 * 120, 4 * (24 + 280 + 60), 4 * 120, 280});
  expect_work(deep, Pass::backward,
              {4 * 240 * 6 + 6 * 120, 4 * (24 + 4 * 60 + 280), 4 * (24 + 60 + 280), 280});
  const Layer l = Layer::parse(deep);
  EXPECT_EQ(l.op().parameter_tensors(l), (std::vector<std::int64_t>{20, 25, 5, 5, 20, 25, 5, 5,  //
                                                                    50, 25, 5, 5, 50, 25, 5, 5}));
  EXPECT_EQ(l.op().output_elements(l), 60);
  EXPECT_EQ(family_of(l.op(), Pass::forward), Family::recurrent);
  // PyTorch's documentation of nn.LSTM: weight_ih (4 hidden, in), weight_hh (4 hidden, hidden) and
  // two biases of 4 hidden.
  EXPECT_EQ(Layer::parse("rnn batch=1 steps=1 in_features=10 hidden_features=20 layers=2 cell=lstm")
                .parameter_count(),
            (80 * 10 + 80 * 20 + 160) + (80 * 20 + 80 * 20 + 160));
}

// 2*3 = 6 ids of a table of 10x4: 48 bytes of ids, rows of 24 elements.
TEST(Operators, Embedding) {
  const std::string layer = "embedding batch=2 length=3 entries=10 features=4";
  expect_work(layer, Pass::forward, {0, 48 + 4 * 24, 4 * 24, 40});
  expect_work(layer, Pass::backward, {24, 48 + 4 * 48, 4 * (40 + 24), 40});
  expect_work(layer, Pass::backward, {24, 48 + 2 * 48, 2 * (40 + 24), 40}, DType::bf16);
  const Layer l = Layer::parse(layer);
  EXPECT_EQ(l.op().parameter_tensors(l), (std::vector<std::int64_t>{40}));
  EXPECT_EQ(l.op().input_elements(l), 6);
  EXPECT_EQ(l.op().output_elements(l), 24);
}

// 2*4 = 8 elements, 8 bytes of mask.
TEST(Operators, Dropout) {
  const std::string layer = "dropout batch=2 features=4";
  expect_work(layer, Pass::forward, {24, 32, 32 + 8});
  expect_work(layer, Pass::backward, {16, 32 + 8, 32});
  expect_work(layer, Pass::backward, {16, 16 + 8, 16}, DType::bf16);
}

// 2*3*4 = 24 elements; 6 rows, 8 features.
TEST(Operators, Reduce) {
  struct Case {
    std::string operation, axis;
    double forward_flops, backward_flops, backward_reads;
  };
  for (const Case& c : std::vector<Case>{{"sum", "features", 24, 0, 4 * 6},
                                         {"mean", "features", 24 + 6, 6, 4 * 6},
                                         {"max", "features", 24, 0, (4 + 8) * 6},
                                         {"sum", "rows", 24, 0, 4 * 8},
                                         {"mean", "rows", 24 + 8, 8, 4 * 8},
                                         {"max", "rows", 24, 0, (4 + 8) * 8}}) {
    const std::string layer =
        "reduce batch=2 rows=3 features=4 operation=" + c.operation + " axis=" + c.axis;
    const double result = c.axis == "features" ? 6 : 8;
    expect_work(layer, Pass::forward, {c.forward_flops, 4 * 24, 4 * result});
    expect_work(layer, Pass::backward, {c.backward_flops, c.backward_reads, 4 * 24});
  }
}

TEST(Operators, Transfer) {
  for (const std::string direction : {"host_to_device", "device_to_host", "device_to_device"}) {
    const std::string layer = "transfer batch=2 features=4 direction=" + direction;
    expect_work(layer, Pass::forward, {0, 32, 32});
    expect_work(layer, Pass::forward, {0, 8, 8}, DType::int8);
  }
}

// Of four ranks each adds 3/4 of 8 elements, and sends and receives 2 * 3/4.
TEST(Operators, Allreduce) {
  const std::string layer = "allreduce batch=1 elements=8 ranks=4";
  expect_work(layer, Pass::forward, {6, 4 * 12, 4 * 12});
  expect_work(layer + " nodes=4", Pass::forward, {6, 2 * 12, 2 * 12}, DType::f16);
  EXPECT_EQ(family_of(find_operator("allreduce"), Pass::forward), Family::collective);
}

}  // namespace
}  // namespace forecost
