#include "train/deal.hpp"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

namespace forecost {
namespace {

TEST(DefaultRanksPerModel, KeepsAllBusyAndDividesTheRanks) {
  EXPECT_EQ(default_ranks_per_model(1, 12), 1);
  EXPECT_EQ(default_ranks_per_model(4, 12), 1);
  EXPECT_EQ(default_ranks_per_model(12, 12), 1);
  EXPECT_EQ(default_ranks_per_model(24, 12), 2);
  EXPECT_EQ(default_ranks_per_model(64, 6), 8);  // 10 do not divide 64
  EXPECT_EQ(default_ranks_per_model(7, 3), 1);
  EXPECT_EQ(default_ranks_per_model(4, 1), 4);
}

std::vector<double> loads(const std::vector<double>& costs, int groups) {
  const auto group_of = deal(costs, groups);
  std::vector<double> load(static_cast<std::size_t>(groups), 0);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    load[static_cast<std::size_t>(group_of[i])] += costs[i];
  }
  return load;
}

TEST(Deal, BalancesByCost) {
  EXPECT_EQ(loads({1, 5, 1, 1, 1, 1}, 2), (std::vector<double>{5, 5}));
  // Eight equal folds.
  EXPECT_EQ(loads(std::vector<double>(8, 3), 4), (std::vector<double>(4, 6)));
  // Nothing left to do costs nothing, and does not push others away.
  EXPECT_EQ(loads({0, 0, 0, 2, 2}, 2), (std::vector<double>{2, 2}));
  const auto few = loads({4}, 3);
  EXPECT_EQ(std::count(few.begin(), few.end(), 0.0), 2);
}

TEST(Deal, GivesEachJobToOneGroup) {
  std::vector<double> costs(50);
  std::iota(costs.begin(), costs.end(), 1);
  const auto load = loads(costs, 7);
  EXPECT_EQ(std::accumulate(load.begin(), load.end(), 0.0), 50 * 51 / 2);
  const auto [least, most] = std::minmax_element(load.begin(), load.end());
  EXPECT_LT(*most - *least, 10);
  EXPECT_EQ(deal(costs, 7), deal(costs, 7));
}

}  // namespace
}  // namespace forecost
