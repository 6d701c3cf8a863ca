#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "mpi/collective.hpp"
#include "mpi_main.hpp"

namespace forecost {
namespace {

class CollectiveTest : public testing::Test {
 protected:
  const World& world = test_world();
  std::unique_ptr<Collective> collective = make_collective(world);
  // Sum of rank + 1 over all ranks.
  const int total = world.size() * (world.size() + 1) / 2;
};

TEST_F(CollectiveTest, has_the_shape_of_the_world) {
  EXPECT_EQ(collective->rank(), world.rank());
  EXPECT_EQ(collective->size(), world.size());
}

TEST_F(CollectiveTest, sums_each_type) {
  std::vector<float> f(30001);
  std::vector<double> d(3);
  std::vector<std::int64_t> i{world.rank() + 1, std::int64_t{1} << 50};
  for (std::size_t k = 0; k < f.size(); ++k) {
    f[k] = static_cast<float>(world.rank() + 1) * static_cast<float>(k % 7);
  }
  for (std::size_t k = 0; k < d.size(); ++k) d[k] = world.rank() + 1 + 1e-12 * double(k);
  collective->sum(f);
  collective->sum(d);
  collective->sum(i);
  for (std::size_t k = 0; k < f.size(); ++k) {
    ASSERT_EQ(f[k], static_cast<float>(total) * static_cast<float>(k % 7)) << k;
  }
  for (std::size_t k = 0; k < d.size(); ++k) {
    EXPECT_NEAR(d[k], total + 1e-12 * double(k) * world.size(), 1e-14);
  }
  EXPECT_EQ(i[0], total);
  EXPECT_EQ(i[1], (std::int64_t{1} << 50) * world.size());
}

TEST_F(CollectiveTest, takes_maxima) {
  std::vector<double> d{double(world.rank()), -double(world.rank())};
  collective->max(d);
  EXPECT_EQ(d[0], world.size() - 1);
  EXPECT_EQ(d[1], 0);
}

TEST_F(CollectiveTest, broadcasts) {
  for (int root = 0; root < world.size(); ++root) {
    std::vector<float> f(1000, static_cast<float>(world.rank()));
    collective->broadcast(f, root);
    EXPECT_EQ(f.front(), static_cast<float>(root));
    EXPECT_EQ(f.back(), static_cast<float>(root));
  }
}

TEST_F(CollectiveTest, refuses_different_counts_on_every_rank_and_goes_on_after) {
  if (world.size() == 1) {
    std::vector<float> f(5, 1);
    EXPECT_NO_THROW(collective->sum(f));
    return;
  }
  const std::size_t own = world.rank() == world.size() - 1 ? 6 : 5;
  std::vector<float> f(own, 1);
  EXPECT_THROW(collective->sum(f), std::logic_error);
  EXPECT_THROW(collective->broadcast(f, 0), std::logic_error);
  std::vector<double> d(own, 1);
  EXPECT_THROW(collective->max(d), std::logic_error);
  // The same count of another type is as wrong.
  std::vector<double> d5(5, 1);
  std::vector<float> f5(5, 1);
  if (world.rank() == 0) {
    EXPECT_THROW(collective->sum(std::span(d5)), std::logic_error);
  } else {
    EXPECT_THROW(collective->sum(std::span(f5)), std::logic_error);
  }
  std::vector<float> again(5, 1);
  collective->sum(again);
  EXPECT_EQ(again[0], static_cast<float>(world.size()));
}

TEST_F(CollectiveTest, empty_sums_are_fine) {
  std::vector<float> none;
  EXPECT_NO_THROW(collective->sum(none));
}

}  // namespace
}  // namespace forecost
