#include "data/operators/dense.hpp"
#include "train/model/schemas.hpp"

namespace forecost {
namespace {

bool covers(const Task& task) {
  return task.layer.op().name == "dense" && family_of(task.layer.op(), task.pass) == Family::gemm;
}

void describe(const Query& query, Features& features) {
  const DenseShape s = dense_shape(query.task.layer);
  const auto batch = static_cast<double>(s.batch), in = static_cast<double>(s.in_features),
             out = static_cast<double>(s.out_features);
  describe_work(query, features);
  switch (query.task.pass) {
    case Pass::backward_data:
      describe_product(batch, in, out, features);
      break;
    case Pass::backward_weights:
      describe_product(in, out, batch, features);
      break;
    default:
      describe_product(batch, out, in, features);
  }
  const DeviceLimits limits = device_limits(*query.device, query.task.dtype);
  const double size = bytes_of(query.task.dtype);
  features.add_log("log batch", batch);
  features.add_log("log inputs", in);
  features.add_log("log outputs", out);
  features.add_log("log weights/l2", size * in * out / limits.l2_bytes, 1e-6);
  features.add_log("log weights/cache", size * in * out / limits.cache_bytes, 1e-6);
  features.add("inputs odd", s.in_features % 2 != 0 ? 1 : 0);
  features.add("outputs odd", s.out_features % 2 != 0 ? 1 : 0);
  features.add("one output", s.out_features == 1 ? 1 : 0);
  features.add("bias", s.bias ? 1 : 0);
  features.add_one_hot(s.activation);
}

}  // namespace

const FeatureSchema gemm_schema{
    .name = "gemm",
    .covers = &covers,
    .describe = &describe,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example = "forward f32 none cold heuristic dense batch=1 in_features=1 out_features=1",
};

}  // namespace forecost
