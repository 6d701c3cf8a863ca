#include "mpi/task_queues.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace forecost {

TaskQueues::TaskQueues(std::vector<ClassQueue> queues) {
  constexpr std::size_t tail_part = 20;  // the last 5 %
  for (ClassQueue& queue : queues) {
    total_ += static_cast<std::int64_t>(queue.tasks.size());
    const auto tail = static_cast<std::ptrdiff_t>(queue.tasks.size() / tail_part);
    std::stable_sort(
        queue.tasks.end() - tail, queue.tasks.end(),
        [](const QueuedTask& a, const QueuedTask& b) { return a.expected_s > b.expected_s; });
    classes_[queue.device_class].tasks = std::move(queue.tasks);
  }
}

std::vector<QueuedTask> TaskQueues::take(const std::string& device_class, int rank, double seconds,
                                         int ranks) {
  State& state = classes_[device_class];
  const auto left = state.tasks.size() - state.front;
  const auto share = std::max<std::size_t>(left / (2 * static_cast<std::size_t>(ranks)), 1);
  std::vector<QueuedTask> chunk;
  for (double sum_s = 0; chunk.size() < std::min(left, share) && (chunk.empty() || sum_s < seconds);
       ++state.front) {
    const QueuedTask& task = state.tasks[state.front];
    chunk.push_back({task.index, task.expected_s * state.scale()});
    sum_s += chunk.back().expected_s;
    state.taken.emplace(task.index, Taken{rank, task.expected_s});
  }
  return chunk;
}

const QueuedTask* TaskQueues::next(const std::string& device_class) {
  State& state = classes_[device_class];
  if (state.front == state.tasks.size()) return nullptr;
  const QueuedTask& task = state.tasks[state.front];
  state.scaled = {task.index, task.expected_s * state.scale()};
  return &state.scaled;
}

void TaskQueues::report(const std::string& device_class, int rank, std::int64_t index,
                        double wall_s) {
  State& state = classes_[device_class];
  const auto found = state.taken.find(index);
  if (found == state.taken.end() || found->second.rank != rank) {
    throw std::logic_error(fmt::format(
        "rank {} reports task {} of class {}, which it was not given", rank, index, device_class));
  }
  state.expected_sum_s += found->second.expected_s;
  state.wall_sum_s += wall_s;
  state.taken.erase(found);
  ++done_;
}

std::int64_t TaskQueues::waiting(const std::string& device_class) const {
  const auto found = classes_.find(device_class);
  if (found == classes_.end()) return 0;
  return static_cast<std::int64_t>(found->second.tasks.size() - found->second.front);
}

}  // namespace forecost
