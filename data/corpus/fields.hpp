#pragma once

#include <string_view>

namespace forecost {

/// Calls visit(name, units, get) for every field of a Measurement but its layer and its samples:
/// the one list that journals, corpus columns and comparisons follow. get(row) is a reference to
/// the field in a row, const or not. Units are SI, empty for what has none. A field added here is
/// in all of them.
template <class Visit>
void for_each_field(Visit visit) {
  // clang-format off
  visit("pass", "", [](auto& row) -> auto& { return row.task.pass; });
  visit("dtype", "", [](auto& row) -> auto& { return row.task.dtype; });
  visit("optimizer", "", [](auto& row) -> auto& { return row.task.optimizer; });
  visit("cache_state", "", [](auto& row) -> auto& { return row.task.cache; });
  visit("algorithm_policy", "", [](auto& row) -> auto& { return row.task.policy; });
  visit("device_class", "", [](auto& row) -> auto& { return row.device_class; });
  visit("device_id", "", [](auto& row) -> auto& { return row.device_id; });
  visit("environment_id", "", [](auto& row) -> auto& { return row.environment_id; });
  visit("run_id", "", [](auto& row) -> auto& { return row.run_id; });
  visit("group_id", "", [](auto& row) -> auto& { return row.group_id; });
  visit("protocol", "", [](auto& row) -> auto& { return row.protocol; });
  visit("replicate", "", [](auto& row) -> auto& { return row.replicate; });
  visit("status", "", [](auto& row) -> auto& { return row.status; });
  visit("reason", "", [](auto& row) -> auto& { return row.reason; });
  visit("sample_count", "", [](auto& row) -> auto& { return row.time.n; });
  visit("min_s", "s", [](auto& row) -> auto& { return row.time.min_s; });
  visit("q1_s", "s", [](auto& row) -> auto& { return row.time.q1_s; });
  visit("median_s", "s", [](auto& row) -> auto& { return row.time.median_s; });
  visit("q3_s", "s", [](auto& row) -> auto& { return row.time.q3_s; });
  visit("max_s", "s", [](auto& row) -> auto& { return row.time.max_s; });
  visit("mean_s", "s", [](auto& row) -> auto& { return row.time.mean_s; });
  visit("stdev_s", "s", [](auto& row) -> auto& { return row.time.stdev_s; });
  visit("outliers", "", [](auto& row) -> auto& { return row.time.outliers; });
  visit("host_s", "s", [](auto& row) -> auto& { return row.host_s; });
  visit("stop_reason", "", [](auto& row) -> auto& { return row.stop_reason; });
  visit("runs_per_sample", "", [](auto& row) -> auto& { return row.runs_per_sample; });
  visit("allocate_s", "s", [](auto& row) -> auto& { return row.allocate_s; });
  visit("plan_s", "s", [](auto& row) -> auto& { return row.plan_s; });
  visit("reorder_s", "s", [](auto& row) -> auto& { return row.reorder_s; });
  visit("first_run_s", "s", [](auto& row) -> auto& { return row.first_run_s; });
  visit("warmup_s", "s", [](auto& row) -> auto& { return row.warmup_s; });
  visit("sampling_s", "s", [](auto& row) -> auto& { return row.sampling_s; });
  visit("memory_bytes", "B", [](auto& row) -> auto& { return row.memory_bytes; });
  visit("workspace_bytes", "B", [](auto& row) -> auto& { return row.workspace_bytes; });
  visit("flush_bytes", "B", [](auto& row) -> auto& { return row.flush_bytes; });
  visit("implementation", "", [](auto& row) -> auto& { return row.implementation; });
  visit("seed", "", [](auto& row) -> auto& { return row.seed; });
  visit("checksum", "", [](auto& row) -> auto& { return row.checksum; });
  visit("started_unix_s", "s", [](auto& row) -> auto& { return row.started_unix_s; });
  visit("foreign_share", "", [](auto& row) -> auto& { return row.foreign_share; });
  visit("clock_hz", "Hz", [](auto& row) -> auto& { return row.clock_hz; });
  visit("temperature_k", "K", [](auto& row) -> auto& { return row.temperature_k; });
  visit("power_w", "W", [](auto& row) -> auto& { return row.power_w; });
  visit("concurrent_ranks", "", [](auto& row) -> auto& { return row.concurrent_ranks; });
  visit("source_line", "", [](auto& row) -> auto& { return row.source_line; });
  // clang-format on
}

/// The same for the fields of one row: visit(name, units, member).
template <class Row, class Visit>
void visit_fields(Row& row, Visit visit) {
  for_each_field(
      [&](const char* name, const char* units, auto get) { visit(name, units, get(row)); });
}

/// Fields of which most rows know nothing: a group has such a column only where a row has more than
/// the default, since readers of netCDF slow down with each column. A GPU tells clock, temperature
/// and power; a CPU has reorders, others' share and perhaps a clock; only an imported row has a
/// line, only a collective a group.
constexpr bool is_sparse(std::string_view field) {
  return field == "group_id" || field == "source_line" || field == "reorder_s" ||
         field == "foreign_share" || field == "clock_hz" || field == "temperature_k" ||
         field == "power_w";
}

/// Fields that say what was measured. Rows of one key contradict each other where these differ, or
/// their raw samples; all others but the key's tell when, how and beside whom it was measured.
constexpr bool is_value(std::string_view field) {
  return field == "status" || field == "sample_count" || field == "min_s" || field == "q1_s" ||
         field == "median_s" || field == "q3_s" || field == "max_s" || field == "mean_s" ||
         field == "stdev_s" || field == "outliers" || field == "host_s" ||
         field == "memory_bytes" || field == "workspace_bytes" || field == "implementation" ||
         field == "checksum";
}

/// What a field is called in corpora of schema version 1, and journals of that time.
constexpr std::string_view name_in_version_1(std::string_view field) {
  return field == "sample_count" ? "n" : field;
}

}  // namespace forecost
