#include <set>
#include <stdexcept>

#include <gtest/gtest.h>

#include "mpi/task_queues.hpp"

namespace forecost {
namespace {

ClassQueue queue_of(const std::string& name, std::int64_t n, double expected_s = 0.1) {
  ClassQueue queue{name, {}};
  for (std::int64_t i = 0; i < n; ++i) queue.tasks.push_back({i, expected_s});
  return queue;
}

TEST(TaskQueues, hands_each_task_out_once_per_class) {
  TaskQueues queues({queue_of("a", 100), queue_of("b", 7)});
  EXPECT_EQ(queues.total(), 107);
  for (const auto& [name, n] : {std::pair<std::string, std::size_t>{"a", 100}, {"b", 7}}) {
    std::set<std::int64_t> seen;
    for (auto chunk = queues.take(name, 0, 1, 3); !chunk.empty();
         chunk = queues.take(name, 0, 1, 3)) {
      for (const auto& task : chunk) EXPECT_TRUE(seen.insert(task.index).second);
    }
    EXPECT_EQ(seen.size(), n);
  }
  EXPECT_TRUE(queues.take("unknown", 0, 1, 1).empty());
}

TEST(TaskQueues, a_chunk_is_about_the_time_asked_for) {
  TaskQueues queues({queue_of("a", 1000, 0.125)});
  EXPECT_EQ(queues.take("a", 0, 1, 1).size(), 8U);
  EXPECT_EQ(queues.take("a", 0, 0, 1).size(), 1U);
}

TEST(TaskQueues, learns_from_reports_how_long_tasks_take) {
  TaskQueues queues({queue_of("a", 1000, 0.1)});
  for (const auto& task : queues.take("a", 0, 1, 1)) queues.report("a", 0, task.index, 0.01);
  EXPECT_EQ(queues.take("a", 0, 1, 1).size(), 100U);
  EXPECT_NEAR(queues.next("a")->expected_s, 0.01, 1e-12);
}

TEST(TaskQueues, leaves_others_their_share_at_the_end) {
  TaskQueues queues({queue_of("a", 16, 0.001)});
  EXPECT_EQ(queues.take("a", 0, 1, 4).size(), 2U);
}

TEST(TaskQueues, keeps_the_order_but_for_the_last_twentieth) {
  ClassQueue queue{"a", {}};
  for (std::int64_t i = 0; i < 100; ++i) queue.tasks.push_back({i, 0.001 * double(i)});
  TaskQueues queues({queue});
  std::vector<std::int64_t> order;
  for (auto chunk = queues.take("a", 0, 0, 1); !chunk.empty(); chunk = queues.take("a", 0, 0, 1)) {
    order.push_back(chunk.front().index);
  }
  ASSERT_EQ(order.size(), 100U);
  for (std::int64_t i = 0; i < 95; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  for (std::size_t i = 95; i < 100; ++i) {
    EXPECT_EQ(order[i], 99 - static_cast<std::int64_t>(i - 95));
  }
}

TEST(TaskQueues, refuses_reports_of_what_is_not_in_hand) {
  TaskQueues queues({queue_of("a", 10)});
  const auto chunk = queues.take("a", 1, 0, 1);
  EXPECT_THROW(queues.report("a", 1, 5, 0.1), std::logic_error);  // nobody has it
  EXPECT_THROW(queues.report("a", 2, chunk[0].index, 0.1), std::logic_error);
  queues.report("a", 1, chunk[0].index, 0.1);
  EXPECT_THROW(queues.report("a", 1, chunk[0].index, 0.1), std::logic_error);  // twice
  EXPECT_EQ(queues.done(), 1);
  EXPECT_EQ(queues.waiting("a"), 9);
}

}  // namespace
}  // namespace forecost
