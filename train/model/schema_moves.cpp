#include "data/operators/allreduce.hpp"
#include "data/operators/embedding.hpp"
#include "data/operators/transfer.hpp"
#include "train/model/schemas.hpp"

// Operators that move data from one place to another and compute little or nothing.

namespace forecost {
namespace {

double d(std::int64_t v) { return static_cast<double>(v); }

bool covers_embedding(const Task& task) {
  return task.layer.op().name == "embedding" && task.pass != Pass::update;
}

void describe_embedding(const Query& query, Features& features) {
  const EmbeddingShape s = embedding_shape(query.task.layer);
  const DeviceLimits limits = device_limits(*query.device, query.task.dtype);
  const double table = bytes_of(query.task.dtype) * d(s.entries) * d(s.features);
  describe_work(query, features);
  describe_rows(d(s.batch * s.length), d(s.features), features);
  features.add_log("log entries", d(s.entries));
  features.add_log("log table/cache", table / limits.cache_bytes, 1e-6);
  features.add_log("log table/l2", table / limits.l2_bytes, 1e-6);
  features.add_log("log ids/entries", d(s.batch * s.length) / d(s.entries), 1e-6);
  features.add_one_hot(query.task.optimizer);  // of a training step
}

bool covers_transfer(const Task& task) { return task.layer.op().name == "transfer"; }

void describe_transfer(const Query& query, Features& features) {
  const TransferShape s = transfer_shape(query.task.layer);
  describe_work(query, features);
  features.add_log("log elements", d(s.batch) * d(s.features));
  features.add_one_hot(s.direction);
  features.add("pinned", s.pinned ? 1 : 0);
}

bool covers_allreduce(const Task& task) { return task.layer.op().name == "allreduce"; }

void describe_allreduce(const Query& query, Features& features) {
  const AllreduceShape s = allreduce_shape(query.task.layer);
  describe_work(query, features);
  features.add_log("log elements", d(s.elements));
  features.add_log("log ranks", d(s.ranks));
  features.add_log("log nodes", d(s.nodes));
  features.add_log("log elements/rank", d(s.elements) / d(s.ranks));
  features.add("one node", s.nodes == 1 ? 1 : 0);
}

}  // namespace

const FeatureSchema embedding_schema{
    .name = "embedding",
    .covers = &covers_embedding,
    .describe = &describe_embedding,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example = "forward f32 none cold heuristic embedding batch=1 entries=1 features=1",
};

const FeatureSchema transfer_schema{
    .name = "transfer",
    .covers = &covers_transfer,
    .describe = &describe_transfer,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example =
        "forward f32 none cold heuristic transfer batch=1 features=1 "
        "direction=device_to_device",
};

const FeatureSchema allreduce_schema{
    .name = "allreduce",
    .covers = &covers_allreduce,
    .describe = &describe_allreduce,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example = "forward f32 none cold heuristic allreduce batch=1 elements=1 ranks=2",
};

}  // namespace forecost
