#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace forecost {

/// A task by its number; what it means is the caller's business.
struct QueuedTask {
  std::int64_t index;
  double expected_s;  ///< wall time, as far as known
};

/// What is to be done on one class of devices, in order.
struct ClassQueue {
  std::string device_class;
  std::vector<QueuedTask> tasks;
};

/// The manager's books: which task of which class is waiting, in whose hands, or done. Guards that
/// each task is handed out once and reported once.
class TaskQueues {
 public:
  /// The order is kept but for the last 5 % of each class, which are sorted longest first, so that
  /// ranks finish together without the sample being biased should time run out earlier.
  explicit TaskQueues(std::vector<ClassQueue> queues);

  /// Tasks for `rank`, in order, of about `seconds` together, at least one while any is left. Each
  /// of the `ranks` of the class leaves the others their share: a chunk is never more than half of
  /// an equal part of what is left. Expected times are scaled by what reports have shown so far.
  std::vector<QueuedTask> take(const std::string& device_class, int rank, double seconds,
                               int ranks);
  /// The task that take would hand out next, its time scaled; null if none is left.
  const QueuedTask* next(const std::string& device_class);
  /// `rank` has finished a task. Throws std::logic_error if it was not in that rank's hands.
  void report(const std::string& device_class, int rank, std::int64_t index, double wall_s);

  std::int64_t total() const { return total_; }
  std::int64_t done() const { return done_; }
  /// Tasks of a class that nobody has taken.
  std::int64_t waiting(const std::string& device_class) const;

 private:
  struct Taken {
    int rank;
    double expected_s;
  };
  struct State {
    std::vector<QueuedTask> tasks;
    std::size_t front = 0;
    std::map<std::int64_t, Taken> taken;
    double expected_sum_s = 0, wall_sum_s = 0;  ///< of what was reported
    QueuedTask scaled{};

    double scale() const { return expected_sum_s > 0 ? wall_sum_s / expected_sum_s : 1; }
  };

  std::map<std::string, State> classes_;
  std::int64_t total_ = 0, done_ = 0;
};

}  // namespace forecost
