#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "data/layer.hpp"
#include "data/vocabulary.hpp"

namespace forecost {

/// What a plan lists, for each device class.
struct Task {
  Layer layer;
  Pass pass = Pass::forward;
  DType dtype = DType::f32;
  Optimizer optimizer = Optimizer::none;  ///< other than none for `update` and `training_step` only
  CacheState cache = CacheState::cold;
  AlgorithmPolicy policy = AlgorithmPolicy::heuristic;

  Work work() const { return layer.work(pass, dtype, optimizer); }
  friend bool operator==(const Task&, const Task&) = default;
};

/// Distribution of the time of one run of a task, in seconds.
struct TimingSummary {
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  std::int64_t n = 0;  ///< samples; 0 if nothing was timed, all else is then NaN
  double min_s = nan, q1_s = nan, median_s = nan, q3_s = nan, max_s = nan, mean_s = nan,
         stdev_s = nan;
  std::int64_t outliers = 0;  ///< beyond 5 MAD from the median: counted, never dropped
};
/// Quartiles by linear interpolation, stdev with n - 1.
TimingSummary summarize(std::vector<double> samples_s);

/// Versions, driver, kernel and host a measurement was taken with.
struct Environment {
  std::map<std::string, std::string> facts;
  std::string id() const;  ///< short hash of the facts
};

/// One launch of the program: job, command, times.
struct Run {
  std::string id;  ///< "<job>-<shard>", the folder under RUN_DIR/runs
  std::map<std::string, std::string> facts;
};

/// Devices that did a task together: of a collective.
struct GangRecord {
  std::map<std::string, std::string> facts;  ///< members (device ids, in order), hosts, nodes
  std::string id() const;                    ///< short hash of the facts
};

/// From here on replicates are those of the drift reference: one task that a launch measures again
/// every few minutes, to see whether its device changes. Below are the sweep's deliberate repeats.
inline constexpr std::int64_t first_reference_replicate = 1000;

/// One timing summary with exactly one status: a row of the corpus.
struct Measurement {
  Task task;
  std::string device_class{};
  std::string device_id{}, environment_id{}, run_id{};
  std::string group_id{};  ///< of a collective: the devices that it ran on; device_id is the first
  Protocol protocol = Protocol::host_clock;
  std::int64_t replicate = 0;  ///< 0 for the planned measurement, 1.. for deliberate repeats
  Status status = Status::ok;
  std::string reason{};  ///< why it is not ok; of an ok row, what is remarkable. One line

  TimingSummary time{};                ///< what the model is trained on
  double host_s = TimingSummary::nan;  ///< launch to completion on the host's clock, median
  StopReason stop_reason = StopReason::none;
  std::int64_t runs_per_sample = 1;  ///< back-to-back runs in one clock pair; times are per run
  double allocate_s = TimingSummary::nan, plan_s = TimingSummary::nan,
         reorder_s = TimingSummary::nan, first_run_s = TimingSummary::nan,
         warmup_s = TimingSummary::nan, sampling_s = TimingSummary::nan;
  double memory_bytes = TimingSummary::nan;  ///< all tensors and workspace
  double workspace_bytes = TimingSummary::nan;
  double flush_bytes = TimingSummary::nan;  ///< touched between samples when cold
  std::string implementation{};             ///< as the library names what ran
  std::uint64_t seed = 0;                   ///< of the operands' values
  double checksum = TimingSummary::nan;     ///< of the result
  double started_unix_s = TimingSummary::nan;
  /// Of the time of sampling, what other programs took from the most disturbed part of the device.
  double foreign_share = TimingSummary::nan;
  double clock_hz = TimingSummary::nan,  ///< while sampling, as the device tells
      temperature_k = TimingSummary::nan, power_w = TimingSummary::nan;
  std::int64_t concurrent_ranks = 0;  ///< others measuring on the same host meanwhile
  std::int64_t source_line = 0;       ///< of the table it was imported from; 0 of what was measured
  std::vector<float> samples_s{};     ///< raw, in order
};

/// "forward f32 cold heuristic conv2d batch=..": canonical text of a task.
std::string task_text(const Task& task);
/// Reads what task_text wrote; throws UsageError.
Task parse_task(std::string_view text);
/// task_text plus the device class: what resume looks up.
std::string task_key(const Task& task, std::string_view device_class);
/// Task key + device + environment + protocol + replicate: what identifies a row in a merge.
std::string row_key(const Measurement& row);

}  // namespace forecost
