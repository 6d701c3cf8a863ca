#include <algorithm>
#include <cmath>

#include "data/operators/conv2d.hpp"
#include "train/model/schemas.hpp"

namespace forecost {
namespace {

bool covers(const Task& task) {
  return task.layer.op().name == "conv2d" &&
         family_of(task.layer.op(), task.pass) == Family::convolution;
}

void describe(const Query& query, Features& features) {
  const Conv2dShape s = conv2d_shape(query.task.layer);
  const auto d = [](std::int64_t v) { return static_cast<double>(v); };
  const double batch = d(s.batch), groups = d(s.groups), in = d(s.in_channels) / groups,
               out = d(s.out_channels) / groups, taps = d(s.kernel_h * s.kernel_w),
               in_side = d(s.in_h * s.in_w), out_side = d(s.out_h() * s.out_w());
  describe_work(query, features);
  // The product that an implicit-GEMM algorithm computes for each group.
  switch (query.task.pass) {
    case Pass::backward_data:
      describe_product(batch * in_side, in, out * taps, features);
      break;
    case Pass::backward_weights:
      describe_product(in * taps, out, batch * out_side, features);
      break;
    default:
      describe_product(batch * out_side, out, in * taps, features);
  }
  const DeviceLimits limits = device_limits(*query.device, query.task.dtype);
  const double size = bytes_of(query.task.dtype);
  features.add_log("log batch", batch);
  features.add_log("log channels in", d(s.in_channels));
  features.add_log("log channels out", d(s.out_channels));
  features.add_log("log groups", groups);
  features.add("depthwise", s.groups > 1 && s.groups == s.in_channels ? 1 : 0);
  features.add_log("log height in", d(s.in_h));
  features.add_log("log width in", d(s.in_w));
  features.add_log("log height out", d(s.out_h()));
  features.add_log("log width out", d(s.out_w()));
  features.add_log("log kernel height", d(s.kernel_h));
  features.add_log("log kernel width", d(s.kernel_w));
  features.add("kernel 1", s.kernel_h == 1 && s.kernel_w == 1 ? 1 : 0);
  features.add("kernel 3", s.kernel_h == 3 && s.kernel_w == 3 ? 1 : 0);
  features.add("kernel even", s.kernel_h % 2 == 0 ? 1 : 0);
  features.add_log("log stride", d(s.stride_h * s.stride_w));
  features.add("stride 1", s.stride_h == 1 && s.stride_w == 1 ? 1 : 0);
  features.add("dilated", s.dilation_h > 1 || s.dilation_w > 1 ? 1 : 0);
  features.add_log("log dilation", d(s.dilation_h * s.dilation_w));
  features.add_log("log inside share", s.inside_share(), 1e-3);
  const auto waste = [](double extent, double tile) {
    return (std::max(extent, 1.0) + tile - 1 - std::fmod(extent + tile - 1, tile)) /
           std::max(extent, 1.0);
  };
  features.add_log("waste channels in/16", waste(in, 16));
  features.add_log("waste channels out/16", waste(out, 16));
  features.add_log("waste width out/8", waste(d(s.out_w()), 8));
  features.add_log("waste width out/28", waste(d(s.out_w()), 28));
  features.add("few channels in", in < 16 ? 1 : 0);
  features.add("few channels out", out < 16 ? 1 : 0);
  features.add("channels in by 16", s.in_channels % 16 == 0 ? 1 : 0);
  features.add("channels out by 16", s.out_channels % 16 == 0 ? 1 : 0);
  features.add_log("log weights/l2", size * d(s.weight_elements()) / limits.l2_bytes, 1e-6);
  features.add_log("log image/l2", size * d(s.in_channels) * in_side / limits.l2_bytes, 1e-6);
  features.add_log("log input/cache",
                   size * batch * d(s.in_channels) * in_side / limits.cache_bytes, 1e-6);
  features.add_log("log output/cache",
                   size * batch * d(s.out_channels) * out_side / limits.cache_bytes, 1e-6);
  features.add("bias", s.bias ? 1 : 0);
  features.add_one_hot(s.activation);
}

}  // namespace

const FeatureSchema convolution_schema{
    .name = "convolution",
    .covers = &covers,
    .describe = &describe,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example =
        "forward f32 none cold heuristic conv2d batch=1 in_channels=1 out_channels=1 in_h=1 in_w=1 "
        "kernel_h=1 kernel_w=1",
};

}  // namespace forecost
