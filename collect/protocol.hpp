#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collect/backend.hpp"
#include "collect/sweep.hpp"
#include "data/measurement.hpp"

namespace forecost {

/// Measures one task by the rules of docs/measuring.md: phases apart, warm-up through the measured
/// path, cold or hot samples until a stop criterion is met, checksum of the result, plausibility.
///
/// Every outcome is a row with one status: whatever prepare() or a run throws becomes `failed`,
/// std::bad_alloc becomes `out_of_memory`, CaseRefused its own status. nullopt means that a stop
/// was asked for (core/stop.hpp) before the row was complete: there is nothing to journal, the task
/// is still to be done.
///
/// Filled in: task, device class and id, protocol, status, times, what the case tells of itself,
/// checksum, started_unix_s. Left to the caller: environment_id, run_id, replicate,
/// concurrent_ranks. The caller also keeps the device busy (spin) at its start and after a second
/// of idleness.
std::optional<Measurement> measure(TimingBackend& backend, const Task& task,
                                   const MeasureRules& rules, std::uint64_t seed);

/// How one prepared case was timed; times are of one run.
struct CaseTimes {
  TimingSummary time{};
  double host_s = TimingSummary::nan, first_run_s = TimingSummary::nan,
         warmup_s = TimingSummary::nan, sampling_s = TimingSummary::nan;
  double checksum = TimingSummary::nan;
  StopReason stop_reason = StopReason::none;
  std::int64_t runs_per_sample = 1;
  bool throttled = false;
  std::vector<float> samples_s{};
};

/// A row of the task on the backend's device, at this moment, with nothing measured.
Measurement begin_row(const TimingBackend& backend, const Task& task);

/// Thrown by time_case: a stop was asked for, what was timed so far is to be forgotten.
struct StopAsked {};

/// The warm-up, samples and checks of measure(), also for a case that is no task of a sweep (a
/// whole network). `times` keeps what was reached where CaseRefused (timeout, failed) is thrown.
/// `deadline_s` is on the backend's clock.
void time_case(const TimingBackend& backend, PreparedCase& prepared, CacheState cache,
               const MeasureRules& rules, double deadline_s, CaseTimes& times);

/// Why a time of one run cannot be true on this device (rule 14), nullopt if it can. Fast
/// algorithms (Winograd, FFT), as the implementation's name tells them, are not held to the peak.
std::optional<std::string> implausible(const Task& task, double seconds, const Device& device,
                                       const std::string& implementation);

}  // namespace forecost
