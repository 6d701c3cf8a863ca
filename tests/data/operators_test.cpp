#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/layer.hpp"
#include "data/operators/activation.hpp"
#include "data/operators/elementwise.hpp"

namespace forecost {
namespace {

using testing::HasSubstr;

/// FLOPs, bytes read and written of a pass, and its parameters.
struct Expected {
  double flops, bytes_read, bytes_written, parameters = 0;
};

void expect_work(const Work& work, const Expected& expected, const std::string& of) {
  EXPECT_EQ(work.flops, expected.flops) << of;
  EXPECT_EQ(work.bytes_read, expected.bytes_read) << of;
  EXPECT_EQ(work.bytes_written, expected.bytes_written) << of;
  EXPECT_EQ(work.parameters, expected.parameters) << of;
  EXPECT_EQ(work.padding_flops, 0) << of;
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
    // The gradient is joint, or split in two, but not both.
    EXPECT_NE(op->has(Pass::backward), op->has(Pass::backward_data));
    EXPECT_EQ(op->has(Pass::backward_weights), op->has(Pass::backward_data));
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
}

TEST(Operators, ElementsOfTheLargestLayersFitIn64Bits) {
  for (const std::string_view name :
       {"matmul", "layer_norm", "softmax", "elementwise", "activation"}) {
    const Operator& op = find_operator(name);
    std::vector<std::int64_t> values;
    for (const ParameterInfo& p : op.parameters) {
      values.push_back(p.value_names.empty() ? p.max : p.min);
    }
    const Layer layer = Layer::of_values(op, values);
    double product = 1;
    for (const std::int64_t v : values) product *= v > 0 ? static_cast<double>(v) : 1;
    if (name != "matmul") {
      EXPECT_EQ(static_cast<double>(op.output_elements(layer)), product) << name;
    } else {
      EXPECT_EQ(op.output_elements(layer), std::int64_t{1} << 60);
    }
    EXPECT_GE(op.input_elements(layer), op.output_elements(layer)) << name;
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

}  // namespace
}  // namespace forecost
