#include "data/operators/batch_norm.hpp"
#include "data/operators/pool2d.hpp"
#include "train/model/schemas.hpp"

// Operators that treat each channel of an image by itself.

namespace forecost {
namespace {

double d(std::int64_t v) { return static_cast<double>(v); }

bool covers_pool2d(const Task& task) { return task.layer.op().name == "pool2d"; }

void describe_pool2d(const Query& query, Features& features) {
  const Pool2dShape s = pool2d_shape(query.task.layer);
  const WindowSide h = s.vertical(), w = s.horizontal();
  describe_work(query, features);
  describe_rows(d(s.batch * s.channels * s.out_h()), d(s.out_w()), features);
  features.add_log("log batch", d(s.batch));
  features.add_log("log channels", d(s.channels));
  features.add_log("log width in", d(s.in_w));
  features.add_log("log taps", d(h.kernel * w.kernel));
  features.add_log("log stride", d(h.stride * w.stride));
  features.add("padded", h.padded() > h.side || w.padded() > w.side ? 1 : 0);
  features.add_one_hot(s.mode);
}

bool covers_batch_norm(const Task& task) {
  return task.layer.op().name == "batch_norm" && task.pass != Pass::update;
}

void describe_batch_norm(const Query& query, Features& features) {
  const BatchNormShape s = batch_norm_shape(query.task.layer);
  describe_work(query, features);
  describe_rows(d(s.batch * s.channels), d(s.height * s.width), features);
  features.add_log("log batch", d(s.batch));
  features.add_log("log channels", d(s.channels));
  features.add_log("log channels/core",
                   d(s.channels) / device_limits(*query.device, query.task.dtype).cores, 1e-4);
  features.add("training", s.training ? 1 : 0);
  features.add_one_hot(query.task.optimizer);  // of a training step
}

}  // namespace

const FeatureSchema pool2d_schema{
    .name = "pool2d",
    .covers = &covers_pool2d,
    .describe = &describe_pool2d,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example = "forward f32 none cold heuristic pool2d batch=1 channels=1 in_h=1 in_w=1 mode=max",
};

const FeatureSchema batch_norm_schema{
    .name = "batch_norm",
    .covers = &covers_batch_norm,
    .describe = &describe_batch_norm,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example = "forward f32 none cold heuristic batch_norm batch=1 channels=1",
};

}  // namespace forecost
