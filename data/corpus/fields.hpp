#pragma once

#include <string_view>

namespace forecost {

/// Calls visit(name, units, member) for every field of a Measurement but its layer and its samples:
/// the one list that journals, corpus columns and comparisons follow. Units are SI, empty for what
/// has none. A field added here is in all of them.
template <class Row, class Visit>
void visit_fields(Row& row, Visit visit) {
  visit("pass", "", row.task.pass);
  visit("dtype", "", row.task.dtype);
  visit("optimizer", "", row.task.optimizer);
  visit("cache_state", "", row.task.cache);
  visit("algorithm_policy", "", row.task.policy);
  visit("device_class", "", row.device_class);
  visit("device_id", "", row.device_id);
  visit("environment_id", "", row.environment_id);
  visit("run_id", "", row.run_id);
  visit("protocol", "", row.protocol);
  visit("replicate", "", row.replicate);
  visit("status", "", row.status);
  visit("reason", "", row.reason);
  visit("n", "", row.time.n);
  visit("min_s", "s", row.time.min_s);
  visit("q1_s", "s", row.time.q1_s);
  visit("median_s", "s", row.time.median_s);
  visit("q3_s", "s", row.time.q3_s);
  visit("max_s", "s", row.time.max_s);
  visit("mean_s", "s", row.time.mean_s);
  visit("stdev_s", "s", row.time.stdev_s);
  visit("outliers", "", row.time.outliers);
  visit("host_s", "s", row.host_s);
  visit("stop_reason", "", row.stop_reason);
  visit("runs_per_sample", "", row.runs_per_sample);
  visit("allocate_s", "s", row.allocate_s);
  visit("plan_s", "s", row.plan_s);
  visit("reorder_s", "s", row.reorder_s);
  visit("first_run_s", "s", row.first_run_s);
  visit("warmup_s", "s", row.warmup_s);
  visit("sampling_s", "s", row.sampling_s);
  visit("memory_bytes", "B", row.memory_bytes);
  visit("workspace_bytes", "B", row.workspace_bytes);
  visit("flush_bytes", "B", row.flush_bytes);
  visit("implementation", "", row.implementation);
  visit("seed", "", row.seed);
  visit("checksum", "", row.checksum);
  visit("started_unix_s", "s", row.started_unix_s);
  visit("concurrent_ranks", "", row.concurrent_ranks);
  visit("source_line", "", row.source_line);
}

}  // namespace forecost
