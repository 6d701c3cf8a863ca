#include "mpi/gang.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "mpi_main.hpp"

namespace forecost {
namespace {

// Gangs of every size that the world allows, of its last ranks in reverse order.
TEST(GangTest, acts_together_and_leaves_the_others_alone) {
  const World& world = test_world();
  for (int size = 2; size <= world.size(); ++size) {
    std::vector<int> ranks;
    for (int i = 0; i < size; ++i) ranks.push_back(world.size() - 1 - i);
    const int own = world.size() - 1 - world.rank();
    if (own < size) {
      const auto gang = make_gang(world, ranks);
      EXPECT_EQ(gang->size(), size);
      EXPECT_EQ(gang->rank(), own);
      EXPECT_EQ(gang->broadcast(own == 0 ? 42 : -1), 42);
      EXPECT_EQ(gang->max(own), size - 1);
      std::vector<float> from(1001, static_cast<float>(own + 1)), to(1001, -1);
      gang->all_reduce(from, to);
      EXPECT_EQ(to.front(), static_cast<float>(size * (size + 1) / 2));
      EXPECT_EQ(to.back(), to.front());
      EXPECT_EQ(from.back(), static_cast<float>(own + 1)) << "the operand changed";
      gang->barrier();
    }
    world.barrier();
  }
}

}  // namespace
}  // namespace forecost
