#pragma once

#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "mpi/collective.hpp"
#include "tests/mpi/mpi_main.hpp"

// What every Collective keeps to. An implementation runs it in an executable with the main of
// tests/mpi/mpi_main.cpp, under mpirun at 1, 2, 3 and 4 ranks:
//   INSTANTIATE_TEST_SUITE_P(Mpi, CollectiveContract, testing::Values(CollectiveUnderTest{...}));

namespace forecost {

struct CollectiveUnderTest {
  std::string name;
  /// Of all ranks of the world; called by all of them.
  std::function<std::unique_ptr<Collective>(const World& world, double timeout_s)> make;
};

class CollectiveContract : public testing::TestWithParam<CollectiveUnderTest> {
 protected:
  const World& world = test_world();
  std::unique_ptr<Collective> collective = GetParam().make(world, 60);

  /// What a rank adds: of all sizes and both signs, the same wherever it is asked for.
  static double addend(int rank, std::size_t i) {
    Random random(static_cast<std::uint64_t>(rank), i);
    const double sign = random.uniform() < 0.5 ? -1 : 1;
    return sign * std::exp(random.uniform(-8, 8));
  }

  template <class T>
  void expect_sums(std::size_t count) {
    SCOPED_TRACE("elements: " + std::to_string(count));
    std::vector<T> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<T>(addend(collective->rank(), i));
    }
    collective->sum(std::span<T>(values));
    for (std::size_t i = 0; i < count; ++i) {
      double sum = 0, absolute = 0;
      for (int r = 0; r < collective->size(); ++r) {
        const auto each = static_cast<double>(static_cast<T>(addend(r, i)));
        sum += each;
        absolute += std::fabs(each);
      }
      const double allowed = std::is_integral_v<T> ? 0 : 1e-6 * absolute;
      ASSERT_LE(std::fabs(static_cast<double>(values[i]) - sum), allowed) << "element " << i;
    }
  }
};

TEST_P(CollectiveContract, NumbersTheRanksOfTheWorld) {
  EXPECT_EQ(collective->rank(), world.rank());
  EXPECT_EQ(collective->size(), world.size());
}

// Odd counts, none, one, and more than a network has parameters.
TEST_P(CollectiveContract, SumsWithinAMillionthOfTheAbsoluteValues) {
  for (const std::size_t count : {0, 1, 2, 3, 17, 1023, 28161, 600001}) {
    expect_sums<float>(count);
    expect_sums<double>(count);
    expect_sums<std::int64_t>(count);
  }
}

TEST_P(CollectiveContract, SumsLargeIntegersExactly) {
  std::vector<std::int64_t> values{(std::int64_t{1} << 60) + world.rank(), -world.rank()};
  collective->sum(std::span<std::int64_t>(values));
  const std::int64_t n = world.size(), ranks = n * (n - 1) / 2;
  EXPECT_EQ(values[0], n * (std::int64_t{1} << 60) + ranks);
  EXPECT_EQ(values[1], -ranks);
}

TEST_P(CollectiveContract, TakesMaxima) {
  std::vector<double> values{double(world.rank()), -double(world.rank())};
  collective->max(values);
  EXPECT_EQ(values[0], world.size() - 1);
  EXPECT_EQ(values[1], 0);
}

TEST_P(CollectiveContract, BroadcastsFromAnyRank) {
  for (int root = 0; root < world.size(); ++root) {
    for (const std::size_t count : {1, 1001}) {
      std::vector<float> values(count, static_cast<float>(world.rank()));
      collective->broadcast(values, root);
      EXPECT_EQ(values, std::vector<float>(count, static_cast<float>(root)));
    }
  }
}

// In time, on every rank, and so that one can go on.
TEST_P(CollectiveContract, RefusesCountsThatDiffer) {
  if (world.size() == 1) return;  // nothing to differ from
  for (int odd = 0; odd < world.size(); ++odd) {
    const std::size_t own = world.rank() == odd ? 6 : 5;
    std::vector<float> f(own, 1);
    EXPECT_THROW(collective->sum(std::span<float>(f)), std::logic_error);
    EXPECT_THROW(collective->broadcast(f, 0), std::logic_error);
    std::vector<double> d(own, 1);
    EXPECT_THROW(collective->max(d), std::logic_error);
    std::vector<std::int64_t> i(own, 1);
    EXPECT_THROW(collective->sum(std::span<std::int64_t>(i)), std::logic_error);
    // As many elements of another type are as wrong.
    std::vector<double> d5(5, 1);
    std::vector<float> f5(5, 1);
    if (world.rank() == odd) {
      EXPECT_THROW(collective->sum(std::span<double>(d5)), std::logic_error);
    } else {
      EXPECT_THROW(collective->sum(std::span<float>(f5)), std::logic_error);
    }
  }
  std::vector<float> again(5, 1);
  collective->sum(std::span<float>(again));
  EXPECT_EQ(again[4], static_cast<float>(world.size()));
}

// Whoever waits for a rank that does not come gives up when the time is over, and says so again
// when asked once more.
TEST_P(CollectiveContract, NoticesADeadRank) {
  if (world.size() == 1) return;  // nobody to wait for
  const auto impatient = GetParam().make(world, 0.3);
  std::vector<float> values(5, 1);
  impatient->sum(std::span<float>(values));
  world.barrier();
  if (world.rank() != world.size() - 1) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THROW(impatient->sum(std::span<float>(values)), RankLost);
    const double waited_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_GE(waited_s, 0.3);
    EXPECT_THROW(impatient->sum(std::span<float>(values)), RankLost);
  }
  world.barrier();  // what was given up may still be written to until the process ends
}

}  // namespace forecost
