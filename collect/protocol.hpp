#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
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
/// Filled in: task, device class and id, protocol, status, times, conditions, what the case tells
/// of itself, checksum, started_unix_s. Left to the caller: environment_id, run_id, replicate,
/// concurrent_ranks. The caller also keeps the device awake (KeepAwake), and looks whether the task
/// has poisoned it.
///
/// `prepare` makes the case of a task that this device does not do alone; without it the backend
/// does, once it has said that it supports the task.
using Prepare = std::function<std::unique_ptr<PreparedCase>(const Task&, std::uint64_t seed)>;
std::optional<Measurement> measure(TimingBackend& backend, const Task& task,
                                   const MeasureRules& rules, std::uint64_t seed,
                                   const Prepare& prepare = {});

/// How one prepared case was timed; times are of one run.
struct CaseTimes {
  TimingSummary time{};
  double host_s = TimingSummary::nan, first_run_s = TimingSummary::nan,
         warmup_s = TimingSummary::nan, sampling_s = TimingSummary::nan;
  double checksum = TimingSummary::nan;
  StopReason stop_reason = StopReason::none;
  std::int64_t runs_per_sample = 1, retakes = 0;
  bool throttled = false;  ///< also after all retakes
  Conditions conditions{};
  std::vector<float> samples_s{};
};

/// A row of the task on the backend's device, at this moment, with nothing measured.
Measurement begin_row(const TimingBackend& backend, const Task& task);

/// Thrown by time_case: a stop was asked for, what was timed so far is to be forgotten.
struct StopAsked {};

/// The warm-up, samples and checks of measure(), also for a case that is no task of a sweep (a
/// whole network). `times` keeps what was reached where CaseRefused (timeout, failed) is thrown.
/// `deadline_s` is on the backend's clock.
void time_case(TimingBackend& backend, PreparedCase& prepared, CacheState cache,
               const MeasureRules& rules, double deadline_s, CaseTimes& times);

struct Verdict {
  Status status = Status::ok;
  std::string reason{};  ///< of an ok one: what is remarkable, if anything is
};
/// Whether the row's times can be true on this device (rule 14): `implausible` with the reason if
/// not. Only algorithms that are known to be direct are held to the peak: Winograd and FFT, as the
/// implementation's name tells them, and an implementation without a name are flagged where they
/// exceed it.
Verdict plausibility(const Measurement& row, const Device& device);

/// Clocks sink while a device has nothing to do: it is kept busy for a moment before the first task
/// and after more than a second without one (rule 3).
class KeepAwake {
 public:
  explicit KeepAwake(TimingBackend& backend) : backend_(backend) {}
  void before_task();
  void after_task() { idle_since_s_ = backend_.now_s(); }

 private:
  TimingBackend& backend_;
  double idle_since_s_ = -std::numeric_limits<double>::infinity();
};

}  // namespace forecost
