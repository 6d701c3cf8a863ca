#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collect/backend.hpp"
#include "collect/gang.hpp"
#include "collect/in_flight.hpp"
#include "collect/protocol.hpp"
#include "collect/sweep.hpp"
#include "data/corpus/journal.hpp"
#include "mpi/scheduler.hpp"

namespace forecost {

/// What a number of the schedule stands for: a task of the plan and its replicate. The numbers go
/// through all tasks once, then again for each further replicate.
struct Planned {
  std::size_t task;
  std::int64_t replicate;
};
Planned planned(const Plan& plan, std::int64_t index);
std::int64_t index_of(const Plan& plan, const Planned& what);

/// How a device spent its time, in seconds of its own clock.
struct Duty {
  double sampling_s = 0;  ///< samples and the flushes that they need
  double warm_up_s = 0;   ///< first runs too
  double planning_s = 0;  ///< with allocation and reorders
  double busy_s = 0;      ///< in tasks, all of this included

  Duty& operator+=(const Duty& other);
};

/// Counts by status; also changes of them.
using Outcomes = std::map<int, std::int64_t>;

/// What a launch does alike on all of its ranks.
struct Launch {
  Run run;
  int neighbours = 0;              ///< other ranks that measure on this host
  std::set<std::string> given_up;  ///< keys of tasks that ended their process too often
  std::int64_t next_reference_replicate = first_reference_replicate;
};

/// A rank's part in a launch: it measures, journals and only then reports.
class Measurer {
 public:
  /// Plan, backend and in-flight file outlive it. Creates the journal.
  Measurer(const Plan& plan, TimingBackend& backend, InFlight& in_flight,
           const std::filesystem::path& journal, Launch launch);

  /// Measures what the schedule calls `index`, and before it the drift reference if that is due.
  /// nullopt: a stop was asked for.
  std::optional<TaskReport> execute(std::int64_t index);

  /// Its part in a collective of the plan, which all members of the gang enter together. The row is
  /// the first member's: there the status comes back, everywhere else and after a stop nullopt.
  std::optional<Status> execute_collective(std::int64_t index, Gang& gang,
                                           const GangRecord& members);
  /// Journals that a collective has no gang here, and why.
  Status refuse_collective(std::int64_t index, const std::string& why_not);

  /// Measures once more what other programs disturbed, since they may have ended, as long as
  /// `may_begin` says so of a task's expected seconds. Where they disturbed much the device is
  /// simply not ours, and nothing is done. Returns the changes.
  Outcomes measure_shared_again(const std::function<bool(double expected_s)>& may_begin);

  /// Its device will answer nothing any more: the rank has to stop.
  bool poisoned() const { return backend_.poisoned(); }
  bool measured_references() const { return references_ > 0; }
  void sync() { journal_.sync(); }
  const Duty& duty() const { return duty_; }

 private:
  /// Measures by `take`, and journals; nullopt: a stop was asked for.
  using Take = std::function<std::optional<Measurement>(const Task&, std::uint64_t seed)>;
  std::optional<Measurement> measure_planned(std::size_t task, std::int64_t replicate,
                                             const Take& take, const std::string& group_id = "");
  std::optional<Measurement> measure_planned(std::size_t task, std::int64_t replicate);
  /// On all ranks alike.
  bool given_up(const Task& task) const;
  std::uint64_t seed_of(const Task& task, std::int64_t replicate) const;
  void measure_reference();
  void record_device();

  const Plan& plan_;
  TimingBackend& backend_;
  InFlight& in_flight_;
  Journal journal_;
  const Environment environment_;
  const Launch launch_;
  KeepAwake awake_;
  Device recorded_device_;
  std::set<std::string> recorded_groups_;
  Duty duty_;
  std::int64_t measured_ = 0;
  std::vector<std::int64_t> shared_;      ///< the schedule's numbers of rows of that status
  std::optional<std::size_t> reference_;  ///< the task that is measured for drift
  double last_reference_s_ = 0;           ///< on the backend's clock
  std::int64_t references_ = 0;
};

}  // namespace forecost
