#include <cmath>

#include "data/operators/conv2d.hpp"
#include "data/operators/dense.hpp"
#include "train/model/schemas.hpp"

// The inputs and the target of Justus, Brennan, Bonner, McGough: "Predicting the Computational Cost
// of Deep Learning Models", IEEE Big Data 2018: one network per operator; forward alone has the
// optimizer `none`, a training step the one it is taken with.

namespace forecost {
namespace {

bool is_summed(const Task& task, std::string_view op) {
  return task.layer.op().name == op &&
         (task.pass == Pass::forward || task.pass == Pass::training_step);
}

/// Constant for one device, and then dropped by the normaliser.
void describe_device(const Query& query, Features& features) {
  const DeviceLimits limits = device_limits(*query.device, query.task.dtype);
  features.add("bandwidth", limits.bandwidth_bytes_per_s);
  features.add("cores", limits.cores);
  features.add("clock", limits.clock_hz);
}

void describe_conv2d(const Query& query, Features& features) {
  const Conv2dShape s = conv2d_shape(query.task.layer);
  const auto d = [](std::int64_t v) { return static_cast<double>(v); };
  features.add("batch", d(s.batch));
  features.add("side", d(s.in_h));
  features.add("kernel", d(s.kernel_h));
  features.add("channels in", d(s.in_channels));
  features.add("channels out", d(s.out_channels));
  features.add("stride", d(s.stride_h));
  features.add("padding", s.pad_top + s.pad_bottom > 0 ? 1 : 0);
  features.add("bias", s.bias ? 1 : 0);
  features.add_one_hot(s.activation);
  features.add_one_hot(query.task.optimizer);
  features.add_one_hot(query.task.dtype);  // the paper's rows are all f32
  describe_device(query, features);
}

void describe_dense(const Query& query, Features& features) {
  const DenseShape s = dense_shape(query.task.layer);
  features.add("batch", static_cast<double>(s.batch));
  features.add("inputs", static_cast<double>(s.in_features));
  features.add("outputs", static_cast<double>(s.out_features));
  features.add_one_hot(s.activation);
  features.add_one_hot(query.task.optimizer);
  features.add_one_hot(query.task.dtype);
  describe_device(query, features);
}

double target(const Query&, double seconds) { return std::log1p(seconds * 1e3); }
/// A time is positive, though the network's output need not be.
double seconds(const Query&, double value) { return std::max(std::expm1(value), 1e-4) * 1e-3; }

}  // namespace

const FeatureSchema justus2018_conv2d_schema{
    .name = "justus2018_conv2d",
    .covers = [](const Task& task) { return is_summed(task, "conv2d"); },
    .describe = &describe_conv2d,
    .target = &target,
    .seconds = &seconds,
    .example =
        "forward f32 none cold heuristic conv2d batch=1 in_channels=1 out_channels=1 in_h=1 in_w=1 "
        "kernel_h=1 kernel_w=1",
};

const FeatureSchema justus2018_dense_schema{
    .name = "justus2018_dense",
    .covers = [](const Task& task) { return is_summed(task, "dense"); },
    .describe = &describe_dense,
    .target = &target,
    .seconds = &seconds,
    .example = "forward f32 none cold heuristic dense batch=1 in_features=1 out_features=1",
};

}  // namespace forecost
