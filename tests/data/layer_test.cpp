#include "data/layer.hpp"

#include <gtest/gtest.h>

#include "data/measurement.hpp"
#include "data/operators/conv2d.hpp"
#include "data/operators/dense.hpp"

namespace forecost {
namespace {

const Layer dense_layer("dense", {{"batch", 2}, {"in_features", 3}, {"out_features", 5}});
const Layer conv_layer("conv2d", {{"batch", 2},
                                  {"in_channels", 4},
                                  {"out_channels", 6},
                                  {"in_h", 8},
                                  {"in_w", 10},
                                  {"kernel_h", 3},
                                  {"kernel_w", 3},
                                  {"stride_h", 2},
                                  {"stride_w", 1},
                                  {"pad_top", 1},
                                  {"pad_bottom", 1},
                                  {"pad_left", 1},
                                  {"pad_right", 1},
                                  {"groups", 2},
                                  {"bias", 1},
                                  {"activation", 1}});

std::string message_of(auto&& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(Layer, TextLeavesDefaultsOutAndReadsBack) {
  EXPECT_EQ(dense_layer.text(), "dense batch=2 in_features=3 out_features=5");
  EXPECT_EQ(conv_layer.text(),
            "conv2d batch=2 in_channels=4 out_channels=6 in_h=8 in_w=10 kernel_h=3 kernel_w=3 "
            "stride_h=2 pad_top=1 pad_bottom=1 pad_left=1 pad_right=1 groups=2 activation=relu");
  EXPECT_EQ(Layer::parse(conv_layer.text()), conv_layer);
}

TEST(Layer, RefusesWhatCannotBe) {
  EXPECT_EQ(message_of([] {
              Layer("dense", {{"batch", 2}, {"in_features", 3}});
            }),
            "dense: parameter out_features is missing");
  EXPECT_EQ(message_of([] { (void)dense_layer.with("batch", 0); }),
            "dense: batch=0: expected 1 to 1048576");
  EXPECT_EQ(message_of([] { (void)conv_layer.with("groups", 4); }),
            "conv2d: in_channels=4 and out_channels=6 must be multiples of groups=4");
  EXPECT_EQ(message_of([] { (void)conv_layer.with("kernel_h", 11); }),
            "conv2d: a kernel of 11x3 does not fit into a padded input of 10x12");
  EXPECT_EQ(message_of([] { Layer::parse("dense batch=1 batch=2"); }),
            "dense: batch is given twice");
  EXPECT_EQ(message_of([] { Layer::parse("densse"); }),
            "unknown operator 'densse'; known: dense, conv2d, matmul, layer_norm, softmax, "
            "elementwise, activation, conv_transpose2d, pool2d, batch_norm, attention, rnn, "
            "embedding, dropout, reduce, transfer, allreduce (did you mean 'dense'?)");
  EXPECT_EQ(message_of([] { Layer::parse("dense in_featurs=1"); }),
            "dense: unknown parameter 'in_featurs'; known: batch, in_features, out_features, bias, "
            "activation (did you mean 'in_features'?)");
  EXPECT_EQ(message_of([] { Layer::parse("dense batch=x"); }),
            "dense: batch='x': expected an integer");
}

TEST(Conv2d, OutputSide) {
  const Conv2dShape s = conv2d_shape(conv_layer);
  EXPECT_EQ(s.out_h(), 4);   // (8 + 2 - 2 - 1) / 2 + 1
  EXPECT_EQ(s.out_w(), 10);  // (10 + 2 - 2 - 1) / 1 + 1
  const Conv2dShape dilated = conv2d_shape(conv_layer.with("dilation_h", 2).with("stride_h", 1));
  EXPECT_EQ(dilated.out_h(), 6);  // 8 + 2 - 4
}

TEST(Conv2d, SamePaddingAsTensorFlow) {
  EXPECT_EQ(same_padding(224, 3, 1).before, 1);
  EXPECT_EQ(same_padding(224, 3, 1).after, 1);
  // 224 / 2 = 112 outputs need (112 - 1) * 2 + 7 = 229 rows: 2 before, 3 after.
  EXPECT_EQ(same_padding(224, 7, 2).before, 2);
  EXPECT_EQ(same_padding(224, 7, 2).after, 3);
  EXPECT_EQ(same_padding(5, 1, 3).before + same_padding(5, 1, 3).after, 0);
}

// A 3x3 kernel over 4x4 with one zero around: per dimension the four positions meet 2, 3, 3 and 2
// rows of the image, 10 of 12. Without padding, all of them.
TEST(Conv2d, PaddingIsNotWork) {
  const Layer padded = Layer::parse(
      "conv2d batch=2 in_channels=3 out_channels=5 in_h=4 in_w=4 kernel_h=3 kernel_w=3 pad_top=1 "
      "pad_bottom=1 pad_left=1 pad_right=1 bias=0");
  EXPECT_DOUBLE_EQ(conv2d_shape(padded).inside_share(), 100.0 / 144);
  const Work work = padded.work(Pass::forward, DType::f32);
  EXPECT_EQ(work.flops, 2.0 * 2 * 3 * 5 * 144);
  EXPECT_NEAR(work.padding_flops, 2.0 * 2 * 3 * 5 * 44, 1e-9);
  EXPECT_EQ(
      conv2d_shape(
          padded.with("pad_top", 0).with("pad_bottom", 0).with("pad_left", 0).with("pad_right", 0))
          .inside_share(),
      1);
  // Stride 2 and dilation 2: outputs 0 and 1 read rows {-2, 0, 2} and {0, 2, 4} of 4: 2 of 3 each.
  const Layer strided =
      padded.with("stride_h", 2).with("dilation_h", 2).with("pad_top", 2).with("pad_bottom", 1);
  EXPECT_EQ(conv2d_shape(strided).out_h(), 2);
  EXPECT_DOUBLE_EQ(conv2d_shape(strided).inside_share(), 2.0 / 3 * 10 / 12);
}

// Worked by hand. Dense: macs = 2*3*5 = 30; input 6, weights 15, bias 5, output 10 elements.
TEST(Work, Dense) {
  const Work forward = dense_layer.work(Pass::forward, DType::f32);
  EXPECT_EQ(forward.flops, 2 * 30 + 10);
  EXPECT_EQ(forward.bytes_read, 4 * (6 + 15 + 5));
  EXPECT_EQ(forward.bytes_written, 4 * 10);
  EXPECT_EQ(forward.parameters, 20);
  const Work data = dense_layer.work(Pass::backward_data, DType::bf16);
  EXPECT_EQ(data.flops, 60);
  EXPECT_EQ(data.bytes_read, 2 * (10 + 15));
  EXPECT_EQ(data.bytes_written, 2 * 6);
  const Work weights = dense_layer.work(Pass::backward_weights, DType::f32);
  EXPECT_EQ(weights.flops, 60 + 10);
  EXPECT_EQ(weights.bytes_read, 4 * (10 + 6));
  EXPECT_EQ(weights.bytes_written, 4 * (15 + 5));
}

// Output 2*6*4*10 = 480; each needs 4/2*3*3 = 18 macs: 8640. Input 2*4*8*10 = 640; weights 6*18 =
// 108.
TEST(Work, Conv2dGroupedWithReluAndBias) {
  const Work forward = conv_layer.work(Pass::forward, DType::f32);
  EXPECT_EQ(forward.flops, 2 * 8640 + 480 + 480);
  EXPECT_EQ(forward.bytes_read, 4 * (640 + 108 + 6));
  EXPECT_EQ(forward.bytes_written, 4 * 480);
  const Work data = conv_layer.work(Pass::backward_data, DType::f32);
  EXPECT_EQ(data.flops, 2 * 8640 + 480);              // the relu's gradient
  EXPECT_EQ(data.bytes_read, 4 * (480 + 480 + 108));  // dy, y, w
  EXPECT_EQ(data.bytes_written, 4 * (640 + 480));     // dx, dz
  const Work weights = conv_layer.work(Pass::backward_weights, DType::f32);
  EXPECT_EQ(weights.flops, 2 * 8640 + 480);
  EXPECT_EQ(weights.bytes_read, 4 * (480 + 640));
  EXPECT_EQ(weights.bytes_written, 4 * (108 + 6));
}

TEST(Work, UpdateReadsAndWritesParameterGradientAndState) {
  const Work sgd = dense_layer.work(Pass::update, DType::f32, Optimizer::sgd);
  EXPECT_EQ(sgd.flops, 2 * 20);
  EXPECT_EQ(sgd.bytes_read, 8 * 20);
  EXPECT_EQ(sgd.bytes_written, 4 * 20);
  const Work adam = dense_layer.work(Pass::update, DType::f32, Optimizer::adam);
  EXPECT_EQ(adam.bytes_read, (8 + 8) * 20);
  EXPECT_EQ(adam.bytes_written, (4 + 8) * 20);
  EXPECT_EQ(dense_operator.parameter_tensors(dense_layer), (std::vector<std::int64_t>{15, 5}));
}

TEST(Work, TrainingStepIsTheSumOfItsPasses) {
  const Work step = conv_layer.work(Pass::training_step, DType::f32, Optimizer::momentum);
  double flops = 0, bytes = 0;
  for (const Pass pass : {Pass::forward, Pass::backward_data, Pass::backward_weights}) {
    flops += conv_layer.work(pass, DType::f32).flops;
    bytes += conv_layer.work(pass, DType::f32).bytes();
  }
  const Work update = conv_layer.work(Pass::update, DType::f32, Optimizer::momentum);
  EXPECT_EQ(step.flops, flops + update.flops);
  EXPECT_EQ(step.bytes(), bytes + update.bytes());
  EXPECT_EQ(step.parameters, 114);
  EXPECT_THROW((void)conv_layer.work(Pass::backward, DType::f32), UsageError);
}

TEST(Keys, TaskReadsBackAndRowsDiffer) {
  const Task task{conv_layer,      Pass::update,    DType::bf16,
                  Optimizer::adam, CacheState::hot, AlgorithmPolicy::fixed};
  EXPECT_EQ(parse_task(task_text(task)), task);
  EXPECT_EQ(task_key(task, "x-2c"), task_text(task) + " @ x-2c");
  const auto row = [&](auto change) {
    Measurement m{.task = task,
                  .device_class = "x-2c",
                  .device_id = "d",
                  .environment_id = "e",
                  .run_id = "r"};
    change(m);
    return row_key(m);
  };
  const std::string key = row([](auto&) {});
  // The run and what was measured do not identify a row; everything else does.
  EXPECT_EQ(row([](auto& m) {
              m.run_id = "other";
              m.time.median_s = 1;
            }),
            key);
  EXPECT_NE(row([](auto& m) { m.device_id = "other"; }), key);
  EXPECT_NE(row([](auto& m) { m.device_class = "other"; }), key);
  EXPECT_NE(row([](auto& m) { m.environment_id = "other"; }), key);
  EXPECT_NE(row([](auto& m) { m.replicate = 1; }), key);
  EXPECT_NE(row([](auto& m) { m.protocol = Protocol::device_events; }), key);
}

TEST(Summary, QuartilesAndOutliersByHand) {
  // Sorted 1 2 3 4 100: quartiles 2, 3, 4; deviations from 3 are 2 1 0 1 97, their median 1: only
  // 97 exceeds 5.
  const TimingSummary s = summarize({4, 1, 100, 3, 2});
  EXPECT_EQ(s.n, 5);
  EXPECT_EQ(s.min_s, 1);
  EXPECT_EQ(s.q1_s, 2);
  EXPECT_EQ(s.median_s, 3);
  EXPECT_EQ(s.q3_s, 4);
  EXPECT_EQ(s.max_s, 100);
  EXPECT_EQ(s.mean_s, 22);
  EXPECT_NEAR(s.stdev_s, 43.617656, 1e-6);  // sqrt((21^2 + 20^2 + 19^2 + 18^2 + 78^2) / 4)
  EXPECT_EQ(s.outliers, 1);
  EXPECT_EQ(summarize({1, 2}).median_s, 1.5);
  EXPECT_EQ(summarize({}).n, 0);
}

}  // namespace
}  // namespace forecost
