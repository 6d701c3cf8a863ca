#include <algorithm>

#include "train/model/schemas.hpp"

namespace forecost {
namespace {

bool covers(const Task& task) { return task.pass == Pass::update; }

/// An update depends on the parameter tensors only, whatever the operator they belong to.
void describe(const Query& query, Features& features) {
  describe_work(query, features);
  const auto tensors = query.task.layer.op().parameter_tensors(query.task.layer);
  double elements = 0, smallest = 0;
  for (const std::int64_t n : tensors) {
    elements += static_cast<double>(n);
    smallest = smallest == 0 ? static_cast<double>(n) : std::min(smallest, static_cast<double>(n));
  }
  features.add_log("log elements", elements);
  features.add_log("log smallest tensor", smallest);
  features.add("tensors", static_cast<double>(tensors.size()));
  features.add("state tensors", optimizer_cost(query.task.optimizer).state_tensors);
  features.add_one_hot(query.task.optimizer);
}

}  // namespace

const FeatureSchema memory_bound_schema{
    .name = "memory_bound",
    .covers = &covers,
    .describe = &describe,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example = "update f32 sgd cold heuristic dense batch=1 in_features=1 out_features=1",
};

}  // namespace forecost
