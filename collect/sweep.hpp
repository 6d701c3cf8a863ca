#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/device.hpp"
#include "data/measurement.hpp"

namespace forecost {

/// How one configuration is timed (MEASURING.md rules 3-6); the [measure] table of a sweep file.
struct MeasureRules {
  std::int64_t min_samples = 10;
  std::int64_t max_samples = 2000;
  double budget_s = 2;      ///< of sampling, flushes included
  double precision = 0.01;  ///< half-width of the 95 % interval of the median over the median
  double warmup_budget_s = 1;
  double short_kernel_s = 50e-6;  ///< below: hot runs are batched to hot_batch_s
  double hot_batch_s = 1e-3;
  double timeout_s = 60;        ///< of one whole task
  std::int64_t replicates = 1;  ///< each task is measured so often, a pass over all after the other
  double reference_interval_s = 180;  ///< between two measurements of the drift reference
  bool check = false;  ///< small tasks' results are compared with the plain reference
};

/// A task that is in the sweep but will not be measured, with why; counted by --plan-only.
struct PlanSkip {
  std::string op, pass, reason;
  std::int64_t count;
};

/// Everything a sweep lists, the same on any number of ranks: the order is the seeded shuffle that
/// is also the order of execution.
struct Plan {
  std::vector<Task> tasks;
  std::vector<PlanSkip> skipped;  ///< by the sweep's own caps and constraints
  std::string sweep_text;         ///< the file as it was
  std::string sweep_id;           ///< short hash of sweep_text
  std::string name;
  std::uint64_t seed = 0;
  MeasureRules rules;
};

/// Reads a shipped sweep or a file and expands it. Errors name file, line and what was expected
/// (UsageError).
Plan load_plan(const std::string& name_or_file);
/// Expected seconds that measuring the task takes on the device, set-up and warm-up included; the
/// device may lack all attributes.
double expected_measuring_s(const Task& task, const Device& device, const MeasureRules& rules);

}  // namespace forecost
