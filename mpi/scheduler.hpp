#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/task_queues.hpp"
#include "mpi/world.hpp"

namespace forecost {

/// What a rank tells of a task that it has finished.
struct TaskReport {
  double wall_s = 0;    ///< real time, for the size of chunks
  double device_s = 0;  ///< charged to the budget: the device's own clock
  int outcome = 0;      ///< the caller's own code; the manager counts them
};

enum class ScheduleEnd : std::uint8_t { finished, stop_requested, time_limit, budget };

struct ScheduleState {
  std::int64_t total = 0, done = 0;
  std::map<int, std::int64_t> outcomes;
  double device_s = 0;  ///< spent so far
  ScheduleEnd end = ScheduleEnd::finished;
};

/// What to do. The manager's own copy counts; the others' queues may be empty.
struct Schedule {
  static constexpr double unlimited = std::numeric_limits<double>::infinity();
  std::vector<ClassQueue> queues;
  double time_limit_s = unlimited;     ///< no task is begun that is expected to end later
  double budget_device_s = unlimited;  ///< nothing is begun once this is spent
  double chunk_s = 1;                  ///< of work handed out at a time
};

struct ScheduleHooks {
  /// Runs one task to its end; nullopt if a stop was asked for before the end.
  std::function<std::optional<TaskReport>(std::int64_t index)> execute;
  /// Whether this rank wants all ranks to stop (a signal); polled between tasks.
  std::function<bool()> stop_requested;
  /// On the manager, after each report and between messages.
  std::function<void(const ScheduleState&)> watch = [](const ScheduleState&) {};
};

/// The rank that hands out: the first one without a device, else rank 0.
int manager_of(const std::vector<std::string>& device_classes);

/// Runs every task of every queue exactly once on some rank of its class. All ranks call it; a rank
/// without a device passes an empty class. Returns the same final state on all ranks, after the
/// last task has ended.
///
/// One manager holds the queues. The others hold at most two chunks: the next one is asked for when
/// one begins, so that nobody waits for a manager that serves between tasks of its own. A world of
/// one rank is a manager without others: no message is ever sent. Waiting sleeps, and nothing is
/// sent or received while a task runs.
///
/// An exception of `execute` leaves this call on its rank; the others are then waiting for it, so
/// the program must abort the world.
ScheduleState run_schedule(const World& world, const std::string& device_class, Schedule schedule,
                           const ScheduleHooks& hooks);

}  // namespace forecost
