#include <chrono>
#include <map>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "mpi/scheduler.hpp"
#include "mpi_main.hpp"

namespace forecost {
namespace {

ClassQueue queue_of(const std::string& name, std::int64_t n, double expected_s) {
  ClassQueue queue{name, {}};
  for (std::int64_t i = 0; i < n; ++i) queue.tasks.push_back({i, expected_s});
  return queue;
}

class SchedulerTest : public testing::Test {
 protected:
  const World& world = test_world();

  /// Runs the schedule with injected delays; counts, over all ranks, who ran what how often.
  ScheduleState run(
      const std::string& device_class, Schedule schedule, std::uint64_t seed, double longest_s,
      std::function<bool()> stop = [] { return false; }, double device_s = 1) {
    Random random(seed, static_cast<std::uint64_t>(world.rank()));
    std::string own;
    ran_here = 0;
    ScheduleHooks hooks;
    hooks.execute = [&](std::int64_t index) -> std::optional<TaskReport> {
      std::this_thread::sleep_for(std::chrono::duration<double>(random.uniform(0, longest_s)));
      own += device_class + " " + std::to_string(index) + "\n";
      ++ran_here;
      return TaskReport{0, device_s, static_cast<int>(index % 3)};
    };
    hooks.stop_requested = stop;
    hooks.watch = [&](const ScheduleState& state) {
      EXPECT_GE(state.done, watched);
      watched = state.done;
    };
    const ScheduleState state = run_schedule(world, device_class, schedule, hooks);
    counts.clear();
    for (const std::string& text : world.all_gather(own)) {
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) ++counts[line];
    }
    return state;
  }

  void expect_each_once(const std::string& name, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto found = counts.find(name + " " + std::to_string(i));
      ASSERT_TRUE(found != counts.end()) << name << " " << i << " was never run";
      EXPECT_EQ(found->second, 1) << name << " " << i;
    }
  }

  std::map<std::string, int> counts;
  int ran_here = 0;
  std::int64_t watched = 0;
};

TEST_F(SchedulerTest, every_task_once_whatever_the_delays) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    watched = 0;
    const auto state = run("a", {{queue_of("a", 200, 0.001)}}, seed, 0.002);
    EXPECT_EQ(state.end, ScheduleEnd::finished);
    EXPECT_EQ(state.done, 200);
    EXPECT_EQ(state.outcomes.at(0), 67);
    EXPECT_EQ(state.outcomes.at(2), 66);
    EXPECT_DOUBLE_EQ(state.device_s, 200);
    EXPECT_EQ(counts.size(), 200U);
    expect_each_once("a", 200);
    EXPECT_GT(ran_here, 0);  // nobody is left without work
  }
}

TEST_F(SchedulerTest, classes_do_not_mix) {
  const std::string own = world.rank() % 2 == 0 ? "a" : "b";
  Schedule schedule{{queue_of("a", 60, 0.001)}};
  if (world.size() > 1) schedule.queues.push_back(queue_of("b", 90, 0.001));
  const auto state = run(own, schedule, 1, 0.001);
  EXPECT_EQ(state.end, ScheduleEnd::finished);
  expect_each_once("a", 60);
  if (world.size() > 1) expect_each_once("b", 90);
  EXPECT_EQ(static_cast<std::int64_t>(counts.size()), state.total);
}

TEST_F(SchedulerTest, a_rank_without_device_manages) {
  if (world.size() == 1) {
    EXPECT_EQ(manager_of({"a", "b"}), 0);
    EXPECT_EQ(manager_of({"a", "", "b", ""}), 1);
    return;
  }
  const bool last = world.rank() == world.size() - 1;
  const auto state = run(last ? "" : "a", {{queue_of("a", 100, 0.001)}}, 2, 0.001);
  EXPECT_EQ(state.end, ScheduleEnd::finished);
  expect_each_once("a", 100);
  if (last) {
    EXPECT_EQ(ran_here, 0);
    EXPECT_EQ(watched, 100);
  }
}

TEST_F(SchedulerTest, nothing_to_do_ends_at_once) {
  const auto state = run("a", {{queue_of("a", 0, 1)}}, 3, 0);
  EXPECT_EQ(state.end, ScheduleEnd::finished);
  EXPECT_EQ(state.total, 0);
}

TEST_F(SchedulerTest, a_stop_on_any_rank_reaches_all) {
  for (int who = 0; who < world.size(); ++who) {
    const auto stop = [&] { return world.rank() == who && ran_here >= 3; };
    watched = 0;
    const auto state = run("a", {{queue_of("a", 100000, 0.001)}}, 4, 0.002, stop);
    EXPECT_EQ(state.end, ScheduleEnd::stop_requested);
    EXPECT_LT(state.done, 100000);
    EXPECT_GE(state.done, 3);
    EXPECT_EQ(static_cast<std::int64_t>(counts.size()), state.done);
    for (const auto& [task, n] : counts) EXPECT_EQ(n, 1) << task;
  }
}

TEST_F(SchedulerTest, a_stop_on_a_rank_with_nothing_to_do_reaches_all) {
  if (world.size() == 1) return;  // it is the one that works
  const int idle = world.size() - 1;
  const auto begin = std::chrono::steady_clock::now();
  const auto stop = [&] {
    return world.rank() == idle &&
           std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(300);
  };
  const auto state = run(world.rank() == idle ? "b" : "a",
                         {{queue_of("a", 100000, 0.001), queue_of("b", 1, 0.001)}}, 5, 0.002, stop);
  EXPECT_EQ(state.end, ScheduleEnd::stop_requested);
  EXPECT_LT(state.done, 100000);
}

TEST_F(SchedulerTest, no_task_begins_that_would_end_after_the_time_limit) {
  Schedule schedule{{queue_of("a", 100000, 0.002)}};
  schedule.time_limit_s = 0.3;
  const auto state = run("a", schedule, 5, 0.004);
  EXPECT_EQ(state.end, ScheduleEnd::time_limit);
  EXPECT_GT(state.done, 0);
  EXPECT_LT(state.done, 100000);
  EXPECT_EQ(static_cast<std::int64_t>(counts.size()), state.done);

  watched = 0;
  schedule.queues = {queue_of("a", 3, 100)};
  const auto none = run("a", schedule, 6, 0);
  EXPECT_EQ(none.end, ScheduleEnd::time_limit);
  EXPECT_EQ(none.done, 0);
}

TEST_F(SchedulerTest, the_budget_is_overrun_by_what_is_running_at_most) {
  Schedule schedule{{queue_of("a", 10000, 0.001)}};
  schedule.budget_device_s = 50;
  schedule.chunk_s = 0.002;
  const auto state = run(
      "a", schedule, 7, 0.002, [] { return false; }, 1);
  EXPECT_EQ(state.end, ScheduleEnd::budget);
  EXPECT_GE(state.device_s, 50);
  EXPECT_LT(state.device_s, 50 + 20 * world.size());
}

}  // namespace
}  // namespace forecost
