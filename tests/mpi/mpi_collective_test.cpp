#include <gtest/gtest.h>

#include "tests/mpi/collective_contract.hpp"

namespace forecost {
namespace {

const CollectiveUnderTest of_world{"OfTheWorld", [](const World& world, double timeout_s) {
                                     return make_collective(world, timeout_s);
                                   }};
const CollectiveUnderTest of_all_ranks{"OfAllRanks", [](const World& world, double timeout_s) {
                                         std::vector<int> ranks;
                                         for (int r = 0; r < world.size(); ++r) ranks.push_back(r);
                                         return make_collective(world, ranks, timeout_s);
                                       }};

INSTANTIATE_TEST_SUITE_P(Mpi, CollectiveContract, testing::Values(of_world, of_all_ranks),
                         [](const auto& each) { return each.param.name; });

// Groups sum among themselves, at the same time.
TEST(CollectiveOfSomeRanks, SumsWithinItsGroup) {
  const World& world = test_world();
  const int half = (world.size() + 1) / 2;
  std::vector<int> ranks;
  for (int r = 0; r < world.size(); ++r) {
    if ((r < half) == (world.rank() < half)) ranks.push_back(r);
  }
  const auto group = make_collective(world, ranks);
  ASSERT_EQ(group->size(), static_cast<int>(ranks.size()));
  EXPECT_EQ(ranks[static_cast<std::size_t>(group->rank())], world.rank());
  double expected = 0;
  for (const int r : ranks) expected += r + 1;
  for (int again = 0; again < 3; ++again) {
    std::vector<double> values{world.rank() + 1.0};
    group->sum(std::span<double>(values));
    EXPECT_EQ(values[0], expected);
    std::vector<float> from_first{static_cast<float>(world.rank())};
    group->broadcast(from_first, 0);
    EXPECT_EQ(from_first[0], static_cast<float>(ranks[0]));
  }
}

}  // namespace
}  // namespace forecost
