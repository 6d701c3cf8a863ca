#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "collect/reference/reference.hpp"
#include "core/error.hpp"
#include "data/device.hpp"
#include "data/measurement.hpp"
#include "mpi/gang.hpp"

namespace forecost {

/// Thrown by TimingBackend::prepare where the outcome is a status and not a bug: unsupported,
/// out_of_memory, failed, ...
class CaseRefused : public std::runtime_error {
 public:
  CaseRefused(Status status, const std::string& reason)
      : std::runtime_error(reason), status_(status) {}
  Status status() const noexcept { return status_; }

 private:
  Status status_;
};

/// One timed span of `runs` executions back to back, in seconds for all of them together.
struct Sample {
  double device_s;  ///< the target: device events, or the host clock on a CPU
  double host_s;    ///< launch to completion on the host's clock
  bool throttled = false;
};

/// What a backend saw of its device during the samples of a case; NaN or empty where it cannot
/// tell.
struct Conditions {
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  double clock_hz = nan, temperature_k = nan, power_w = nan;
  double foreign_share = nan;     ///< as Measurement::foreign_share
  std::string shared = {};        ///< why other programs spoiled the samples; empty if they did not
  std::string throttled_by = {};  ///< the driver's reasons
};

/// What the backend knows of a prepared case before it runs.
struct CaseInfo {
  std::string implementation;
  double memory_bytes = 0, workspace_bytes = 0;
  double flush_bytes = 0;  ///< what make_cold touches
  double allocate_s = 0, plan_s = 0;
  double reorder_s = Conditions::nan;  ///< of weights; NaN where there is nothing to reorder
  std::uint64_t seed = 0;
};

/// A task allocated, filled and planned on a device, ready to run many times.
class PreparedCase {
 public:
  virtual ~PreparedCase() = default;
  virtual const CaseInfo& info() const = 0;
  virtual Sample run(std::int64_t runs) = 0;
  /// Evicts the operands from the caches; untimed.
  virtual void make_cold() = 0;
  /// Of the result; NaN or infinite if the result has a value that is.
  virtual double checksum() = 0;
  /// By how much the last two of them may differ: not at all, unless what computes the result adds
  /// up in no fixed order.
  virtual double checksum_tolerance() const { return 0; }
  /// Operands and results of the last run, for a reference to be compared with; empty where the
  /// backend cannot show them.
  virtual Operands operands() { return {}; }
};

/// How a probe came to what it set in its device.
struct ProbeReport {
  /// By how much a typical round fell short of what was set: what another probe may differ by.
  std::map<Attribute, double> spread;
  std::map<double, double> curve_spread;  ///< of the bandwidth curve, by working set in bytes
  int rounds = 0;                         ///< 0: this backend has nothing to probe
  /// What was only ever seen while the device's clock was held back: lower than what it reaches.
  std::set<Attribute> throttled;
  std::set<double> curve_throttled;
  std::vector<std::string> warnings;  ///< what makes the figures doubtful, a line each
  /// Of fewer, no spread can be told: all figures are doubtful.
  static constexpr int enough_rounds = 3;
};
/// What a probe before a sweep may take, and one for its own sake, in seconds.
inline constexpr double brief_probe_s = 2, thorough_probe_s = 40;

/// What to open: which cores or devices of this host.
struct DeviceRequest {
  int cores = 0;  ///< --cores N; 0: those this rank is bound to
  int local_rank = 0, local_size = 1;
  int rank = 0, size = 1;
  std::string replay;  ///< --replay DEVICES|CORPUS
  std::uint64_t seed = 0;
  std::string layout = {};  ///< --layout nchw|nhwc of images on a GPU; empty: nchw
  /// The first rank of this host is a manager that measures nothing.
  bool manager_on_host = false;
};

/// A way to time tasks on a device: cpu, cuda, replay. One opened backend drives one device.
class TimingBackend {
 public:
  virtual ~TimingBackend() = default;
  virtual std::string_view name() const = 0;
  virtual Protocol protocol() const = 0;
  virtual const Device& device() const = 0;
  /// Sets the probed attributes of device() (peak per dtype, bandwidths, caches, latency) and its
  /// bandwidth curve, in as many rounds as fit into `budget_s`, but at least three unless those
  /// take longer than 10 s; calls `after_round` after each, which may throw to end the probe.
  virtual ProbeReport probe(double /*budget_s*/,
                            const std::function<void()>& /*after_round*/ = {}) {
    return {};
  }
  /// What several ranks found together (an all-reduce), for device() to carry.
  virtual void set_probed(Attribute /*attribute*/, double /*value*/) {}
  /// What makes timings doubtful here, a line each with what to do about it; watches the device's
  /// host for a moment.
  virtual std::vector<std::string> warnings() const { return {}; }
  /// Where a time beats what a probe found: probes again and keeps the larger limits, since what
  /// else ran during the first probe can only have lowered them. No case may be prepared. False if
  /// there is nothing to probe, or it was asked often enough.
  virtual bool confirm_limits() { return false; }
  virtual Environment environment() const = 0;
  /// The processors of this host that the device consists of; empty where it is none of them. Two
  /// ranks of a host must share neither these nor a UUID.
  virtual std::vector<int> processors() const { return {}; }
  /// Bytes that a case may still allocate.
  virtual double free_memory_bytes() const = 0;
  /// Why this task cannot be measured here at all; nullopt if it can.
  virtual std::optional<std::string> unsupported(const Task& task) const = 0;
  /// What a new gang needs so that its devices reach each other; called by all members at the same
  /// time. Where it fails prepare_collective tells so.
  virtual void meet(Gang&) {}
  /// Throws CaseRefused.
  virtual std::unique_ptr<PreparedCase> prepare(const Task& task, std::uint64_t seed) = 0;
  /// The same of a collective, on every member of the gang at the same time; its run() is then
  /// called on all of them together. Throws CaseRefused.
  virtual std::unique_ptr<PreparedCase> prepare_collective(const Task& task, std::uint64_t seed,
                                                           Gang& gang);
  /// The backend's clock in seconds: steady, or virtual for replay.
  virtual double now_s() const = 0;
  /// Keeps the device busy so that clocks ramp up.
  virtual void spin(double seconds) = 0;
  /// Leaves it alone so that it cools down.
  virtual void rest(double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  /// Begins to watch the device; conditions() tells what was seen since.
  virtual void watch() {}
  virtual Conditions conditions() { return {}; }
  /// After an error that only a new process can get over, such as a fault on a GPU: nothing that is
  /// asked of the device from here on has an answer.
  virtual bool poisoned() const { return false; }
};

/// A device of the backend is there, and cannot be used.
class UnusableDevice : public EnvironmentError {
 public:
  using EnvironmentError::EnvironmentError;
};

/// One registry line per backend in collect/backends/registry.cpp.
struct BackendInfo {
  std::string_view name;
  std::string_view description;
  /// nullptr where this rank gets no device (more ranks than devices): it may be the manager.
  /// Throws EnvironmentError with one line where the backend cannot work here.
  std::unique_ptr<TimingBackend> (*open)(const DeviceRequest&);
};
/// Those that were built.
const std::vector<BackendInfo>& backends();
/// `auto` is the best one that opens; an unknown name lists the known ones (UsageError). Where
/// `auto` passes over a GPU that is there it adds to `warnings` why.
std::unique_ptr<TimingBackend> open_backend(std::string_view name, const DeviceRequest& request,
                                            std::vector<std::string>* warnings = nullptr);

/// Why a task is none that a backend which measures can take, whatever its device; nullopt if it
/// may be one. `has_operator`: the backend has the task's operator.
std::optional<std::string> no_measurable_task(const Task& task, std::string_view backend,
                                              bool has_operator);
/// What every environment that is measured in tells: of this build and host.
Environment measuring_environment(std::string_view backend);

}  // namespace forecost
