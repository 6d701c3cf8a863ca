#include "data/operators/conv_transpose2d.hpp"
#include "train/model/schemas.hpp"

namespace forecost {
namespace {

bool covers(const Task& task) {
  return task.layer.op().name == "conv_transpose2d" && task.pass != Pass::update;
}

void describe(const Query& query, Features& features) {
  const ConvTranspose2dShape s = conv_transpose2d_shape(query.task.layer);
  const auto d = [](std::int64_t v) { return static_cast<double>(v); };
  const double groups = d(s.groups), in = d(s.in_channels) / groups,
               out = d(s.out_channels) / groups, taps = d(s.kernel_h * s.kernel_w),
               positions = d(s.batch * s.in_h * s.in_w);
  describe_work(query, features);
  // The product for each group; its passes are a convolution's with the roles exchanged.
  switch (query.task.pass) {
    case Pass::backward_data:
      describe_product(positions, in, out * taps, features);
      break;
    case Pass::backward_weights:
      describe_product(out * taps, in, positions, features);
      break;
    default:
      describe_product(positions, out * taps, in, features);
  }
  features.add_log("log batch", d(s.batch));
  features.add_log("log channels in", d(s.in_channels));
  features.add_log("log channels out", d(s.out_channels));
  features.add_log("log groups", groups);
  features.add("depthwise", s.groups > 1 && s.groups == s.in_channels ? 1 : 0);
  features.add_log("log width out", d(s.out_w()));
  features.add_log("log kernel", taps);
  features.add_log("log stride", d(s.stride_h * s.stride_w));
  features.add_log("log dilation", d(s.dilation_h * s.dilation_w));
  features.add("bias", s.bias ? 1 : 0);
  features.add_one_hot(query.task.optimizer);  // of a training step
}

}  // namespace

const FeatureSchema conv_transpose2d_schema{
    .name = "conv_transpose2d",
    .covers = &covers,
    .describe = &describe,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example =
        "forward f32 none cold heuristic conv_transpose2d batch=1 in_channels=1 out_channels=1 "
        "in_h=1 in_w=1 kernel_h=1 kernel_w=1",
};

}  // namespace forecost
