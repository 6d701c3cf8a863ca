#include "mpi/scheduler.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <type_traits>

#include "mpi/mailbox.hpp"
#include "mpi/polite_wait.hpp"

namespace forecost {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// From a worker to the manager.
struct Up {
  enum Kind : std::int32_t {
    report,   ///< a task is done
    request,  ///< send a chunk
    stop,     ///< a signal has come: everybody shall stop
    leave,    ///< nothing is in hand; waiting for the farewell, and still listening for signals
    gone      ///< the last message
  } kind;
  std::int32_t outcome = 0;
  std::int64_t index = 0;
  double wall_s = 0, device_s = 0;
};

/// From the manager to a worker; tasks follow a chunk.
enum class Down : std::int64_t {
  chunk,
  end,      ///< no more chunks: finish what is in hand, then leave
  stop,     ///< drop what is in hand, then leave
  farewell  ///< the last message
};

template <class T>
std::string bytes_of(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

template <class T>
T value_of(std::string_view bytes, std::size_t offset = 0) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (bytes.size() < offset + sizeof(T)) throw std::logic_error("a message between ranks is torn");
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

class Worker {
 public:
  Worker(Mailbox& mailbox, int manager, const Schedule& schedule, const ScheduleHooks& hooks)
      : mailbox_(mailbox), manager_(manager), schedule_(schedule), hooks_(hooks) {}

  void run() {
    const Clock::time_point start = Clock::now();
    PoliteWait politely;
    while (!farewell_) {
      receive();
      if (!stopping_ && hooks_.stop_requested()) {
        tell({.kind = Up::stop});
        stopping_ = true;
      }
      if (stopping_) hand_.clear();
      if (hand_.empty() && (stopping_ || ended_)) {
        if (!left_) tell({.kind = Up::leave});
        left_ = true;
      } else if (!ended_ && !requested_ && hand_.size() <= last_chunk_) {
        tell({.kind = Up::request});
        requested_ = true;
      }
      if (hand_.empty()) {
        politely.pause();
        continue;
      }
      politely.reset();
      const QueuedTask task = hand_.front();
      if (seconds_since(start) + task.expected_s > schedule_.time_limit_s) {
        stopping_ = true;  // of this rank only: the others' next tasks may still fit
        continue;
      }
      hand_.pop_front();
      const Clock::time_point begin = Clock::now();
      if (const auto report = hooks_.execute(task.index)) {
        tell({Up::report, report->outcome, task.index,
              report->wall_s > 0 ? report->wall_s : seconds_since(begin), report->device_s});
      }
    }
    tell({.kind = Up::gone});
  }

 private:
  void receive() {
    while (const auto message = mailbox_.receive()) {
      switch (value_of<Down>(message->text)) {
        case Down::chunk:
          requested_ = false;
          last_chunk_ = (message->text.size() - sizeof(Down)) / sizeof(QueuedTask);
          for (std::size_t i = 0; i < last_chunk_; ++i) {
            hand_.push_back(
                value_of<QueuedTask>(message->text, sizeof(Down) + i * sizeof(QueuedTask)));
          }
          break;
        case Down::end:
          ended_ = true;
          break;
        case Down::stop:
          stopping_ = true;
          break;
        case Down::farewell:
          farewell_ = true;
          break;
      }
    }
  }

  void tell(const Up& up) { mailbox_.send(manager_, bytes_of(up)); }

  Mailbox& mailbox_;
  const int manager_;
  const Schedule& schedule_;
  const ScheduleHooks& hooks_;
  std::deque<QueuedTask> hand_;
  std::size_t last_chunk_ = 0;
  bool requested_ = false, ended_ = false, stopping_ = false, left_ = false, farewell_ = false;
};

class Manager {
 public:
  Manager(Mailbox& mailbox, int own_rank, const std::vector<std::string>& classes,
          const Schedule& schedule, const ScheduleHooks& hooks)
      : mailbox_(mailbox),
        own_rank_(own_rank),
        classes_(classes),
        schedule_(schedule),
        hooks_(hooks),
        queues_(schedule.queues),
        present_(classes.size(), true) {
    present_[static_cast<std::size_t>(own_rank)] = false;
    for (const auto& name : classes) ++ranks_of_[name];
    state_.total = queues_.total();
  }

  ScheduleState run() {
    PoliteWait politely;
    bool own_work = !own_class().empty();
    while (own_work || std::find(present_.begin(), present_.end(), true) != present_.end()) {
      bool busy = false;
      while (const auto message = mailbox_.receive()) {
        serve(message->from, value_of<Up>(message->text));
        busy = true;
      }
      if (hooks_.stop_requested()) stop_all(ScheduleEnd::stop_requested);
      if (state_.device_s >= schedule_.budget_device_s) stop_all(ScheduleEnd::budget);
      if (own_work) {
        own_work = do_own_task();
        busy = true;
      }
      hooks_.watch(state_);
      if (busy) {
        politely.reset();
      } else {
        politely.pause();
      }
    }
    say_farewell();
    if (state_.done == state_.total) {
      state_.end = ScheduleEnd::finished;
    } else if (!stopping_) {
      state_.end = ScheduleEnd::time_limit;
    }
    return state_;
  }

 private:
  const std::string& own_class() const { return classes_[static_cast<std::size_t>(own_rank_)]; }

  /// Tasks for a rank; none if the class has no more or the next one no longer fits into the time.
  std::vector<QueuedTask> take(int rank, double seconds) {
    const std::string& name = classes_[static_cast<std::size_t>(rank)];
    if (stopping_ || name.empty()) return {};
    const QueuedTask* next = queues_.next(name);
    if (next == nullptr) return {};
    if (seconds_since(start_) + next->expected_s > schedule_.time_limit_s) return {};
    return queues_.take(name, rank, seconds, ranks_of_.at(name));
  }

  bool do_own_task() {
    const auto chunk = take(own_rank_, 0);
    if (chunk.empty()) return false;
    const Clock::time_point begin = Clock::now();
    const auto report = hooks_.execute(chunk.front().index);
    own_task_s_ = seconds_since(begin);
    if (!report) return true;  // a stop was asked for; the next round sees it
    record(own_rank_, {Up::report, report->outcome, chunk.front().index,
                       report->wall_s > 0 ? report->wall_s : own_task_s_, report->device_s});
    return true;
  }

  void serve(int rank, const Up& up) {
    switch (up.kind) {
      case Up::report:
        record(rank, up);
        break;
      case Up::stop:
        stop_all(ScheduleEnd::stop_requested);
        break;
      case Up::leave:
        present_[static_cast<std::size_t>(rank)] = false;
        break;
      case Up::gone:
        ++gone_;
        break;
      case Up::request: {
        // While this rank runs a task of its own it serves nobody: hand out enough for that time.
        const auto chunk = take(rank, std::max(schedule_.chunk_s, 2 * own_task_s_));
        std::string text = bytes_of(chunk.empty() ? Down::end : Down::chunk);
        for (const QueuedTask& task : chunk) text += bytes_of(task);
        mailbox_.send(rank, text);
        break;
      }
    }
  }

  /// Whoever has nothing left to do stays until here, so that a signal to any rank stops all.
  void say_farewell() {
    for (std::size_t rank = 0; rank < classes_.size(); ++rank) {
      if (static_cast<int>(rank) != own_rank_) {
        mailbox_.send(static_cast<int>(rank), bytes_of(Down::farewell));
      }
    }
    PoliteWait politely;
    while (gone_ + 1 < classes_.size()) {
      if (const auto message = mailbox_.receive()) {
        serve(message->from, value_of<Up>(message->text));
      } else {
        politely.pause();
      }
    }
  }

  void record(int rank, const Up& up) {
    queues_.report(classes_[static_cast<std::size_t>(rank)], rank, up.index, up.wall_s);
    state_.done = queues_.done();
    state_.device_s += up.device_s;
    ++state_.outcomes[up.outcome];
  }

  void stop_all(ScheduleEnd why) {
    if (stopping_) return;
    stopping_ = true;
    state_.end = why;
    for (std::size_t rank = 0; rank < present_.size(); ++rank) {
      if (present_[rank]) mailbox_.send(static_cast<int>(rank), bytes_of(Down::stop));
    }
  }

  Mailbox& mailbox_;
  const int own_rank_;
  const std::vector<std::string>& classes_;
  const Schedule& schedule_;
  const ScheduleHooks& hooks_;
  TaskQueues queues_;
  std::map<std::string, int> ranks_of_;
  std::vector<bool> present_;  ///< workers that may have something in hand
  std::size_t gone_ = 0;
  ScheduleState state_;
  const Clock::time_point start_ = Clock::now();
  double own_task_s_ = 0;
  bool stopping_ = false;
};

std::string text_of(const ScheduleState& state) {
  std::string text = bytes_of(state.total) + bytes_of(state.done) + bytes_of(state.device_s) +
                     bytes_of(static_cast<std::int64_t>(state.end));
  for (const auto& [outcome, count] : state.outcomes) {
    text += bytes_of(static_cast<std::int64_t>(outcome)) + bytes_of(count);
  }
  return text;
}

ScheduleState state_of(std::string_view text) {
  ScheduleState state;
  state.total = value_of<std::int64_t>(text, 0);
  state.done = value_of<std::int64_t>(text, 8);
  state.device_s = value_of<double>(text, 16);
  state.end = static_cast<ScheduleEnd>(value_of<std::int64_t>(text, 24));
  for (std::size_t at = 32; at < text.size(); at += 16) {
    state.outcomes[static_cast<int>(value_of<std::int64_t>(text, at))] =
        value_of<std::int64_t>(text, at + 8);
  }
  return state;
}

}  // namespace

int manager_of(const std::vector<std::string>& device_classes) {
  const auto found = std::find(device_classes.begin(), device_classes.end(), "");
  return found == device_classes.end() ? 0 : static_cast<int>(found - device_classes.begin());
}

ScheduleState run_schedule(const World& world, const std::string& device_class, Schedule schedule,
                           const ScheduleHooks& hooks) {
  const auto classes = world.all_gather(device_class);
  const int manager = manager_of(classes);
  Mailbox mailbox(world);
  if (world.rank() != manager) {
    Worker(mailbox, manager, schedule, hooks).run();
    return state_of(world.broadcast("", manager));
  }
  const ScheduleState state = Manager(mailbox, manager, classes, schedule, hooks).run();
  return state_of(world.broadcast(text_of(state), manager));
}

}  // namespace forecost
