#include "data/operators/attention.hpp"
#include "train/model/schemas.hpp"

namespace forecost {
namespace {

bool covers(const Task& task) { return task.layer.op().name == "attention"; }

/// The product of scores and the softmax over their rows; the product with the values has the same
/// extents in other places.
void describe(const Query& query, Features& features) {
  const AttentionShape s = attention_shape(query.task.layer);
  const auto d = [](std::int64_t v) { return static_cast<double>(v); };
  const DeviceLimits limits = device_limits(*query.device, query.task.dtype);
  const double heads = d(s.batch * s.heads), size = bytes_of(query.task.dtype),
               scores = d(s.query_length * s.key_length);
  describe_work(query, features);
  describe_product(d(s.query_length), d(s.key_length), d(s.head_features), features);
  features.add_log("log batch", d(s.batch));
  features.add_log("log heads", d(s.heads));
  features.add_log("log products/core", heads / limits.cores, 1e-4);
  // Whether the scores are kept or fused away, they are what the softmax works on.
  features.add_log("log scores", heads * scores);
  features.add_log("log scores/cache", size * heads * scores / limits.cache_bytes, 1e-6);
  features.add_log("log scores of a head/l2", size * scores / limits.l2_bytes, 1e-6);
  features.add_log("log scores/traffic", size * heads * scores / query.task.work().bytes(), 1e-4);
  features.add("causal", s.causal ? 1 : 0);
}

}  // namespace

const FeatureSchema attention_schema{
    .name = "attention",
    .covers = &covers,
    .describe = &describe,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example =
        "forward f32 none cold heuristic attention batch=1 heads=1 query_length=1 key_length=1 "
        "head_features=1",
};

}  // namespace forecost
