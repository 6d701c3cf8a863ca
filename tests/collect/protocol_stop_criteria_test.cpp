#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "collect/stop_criteria.hpp"
#include "core/random.hpp"

namespace forecost {
namespace {

/// Plays a recorded sequence, a sample a millisecond, until the rules stop it.
struct Outcome {
  StopReason reason = StopReason::none;
  std::size_t samples = 0;
};
Outcome play(const MeasureRules& rules, const std::function<double(std::size_t)>& sample) {
  const auto criteria = stop_criteria(rules);
  std::vector<double> samples;
  while (samples.size() < 10'000) {
    samples.push_back(sample(samples.size()));
    for (const StopCriterion& criterion : criteria) {
      if (criterion.met(samples, 1e-3 * static_cast<double>(samples.size()))) {
        return {criterion.reason, samples.size()};
      }
    }
  }
  return {};
}

TEST(MedianInterval, FollowsTheBinomialDistribution) {
  // Ranks from Conover's table A3 (n, lower and upper): 10: 2, 9; 20: 6, 15; 50: 18, 33.
  for (const auto& [n, low, high] : {std::tuple{10, 2, 9}, {20, 6, 15}, {50, 18, 33}}) {
    std::vector<double> samples;
    for (int i = n; i > 0; --i) samples.push_back(i);
    const MedianInterval interval = median_interval_95(samples);
    EXPECT_EQ(interval.low, low) << n;
    EXPECT_EQ(interval.high, high) << n;
  }
  const MedianInterval few = median_interval_95(std::vector<double>{3, 1, 2});
  EXPECT_EQ(few.low, 1);
  EXPECT_EQ(few.high, 3);
  const MedianInterval many = median_interval_95(std::vector<double>(2000, 1.0));
  EXPECT_EQ(many.low, 1);
}

TEST(MedianInterval, HoldsTheMedianAsOftenAsItSays) {
  Random random(5);
  int held = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    std::vector<double> samples;
    for (int i = 0; i < 25; ++i) samples.push_back(std::exp(random.normal()));
    const MedianInterval interval = median_interval_95(samples);
    held += interval.low <= 1 && 1 <= interval.high ? 1 : 0;
  }
  EXPECT_GE(held, 940);
  EXPECT_LE(held, 990);  // not by being far too wide
}

TEST(StopCriteria, EqualSamplesAreDoneAtTheMinimum) {
  const Outcome outcome = play({}, [](std::size_t) { return 2e-3; });
  EXPECT_EQ(outcome.reason, StopReason::precise);
  EXPECT_EQ(outcome.samples, 10U);
}

TEST(StopCriteria, ALittleNoiseIsDoneSoon) {
  Random random(1);
  const Outcome outcome =
      play({}, [&](std::size_t) { return 1e-3 * random.uniform(0.995, 1.005); });
  EXPECT_EQ(outcome.reason, StopReason::precise);
  EXPECT_LE(outcome.samples, 20U);
}

TEST(StopCriteria, OneSpikeChangesNothing) {
  const Outcome outcome = play({}, [](std::size_t i) { return i == 4 ? 1.0 : 1e-3; });
  EXPECT_EQ(outcome.reason, StopReason::precise);
  EXPECT_EQ(outcome.samples, 10U);
}

TEST(StopCriteria, ATrendNeverSettles) {
  const Outcome outcome =
      play({}, [](std::size_t i) { return 1e-3 * (1 + 0.01 * static_cast<double>(i)); });
  EXPECT_EQ(outcome.reason, StopReason::time_budget);
  EXPECT_EQ(outcome.samples, 2000U);
}

TEST(StopCriteria, TwoModesSettleAsNoise) {
  const Outcome outcome = play({}, [](std::size_t i) { return i % 2 == 0 ? 1e-3 : 1.5e-3; });
  EXPECT_EQ(outcome.reason, StopReason::noise_stable);
  EXPECT_GE(outcome.samples, 20U);
  EXPECT_LE(outcome.samples, 200U);
}

TEST(StopCriteria, MoreNoiseThanPrecisionSettlesToo) {
  Random random(3);
  const Outcome outcome =
      play({}, [&](std::size_t) { return 1e-3 * std::exp(0.5 * random.normal()); });
  EXPECT_EQ(outcome.reason, StopReason::noise_stable);
  EXPECT_LE(outcome.samples, 1500U);
}

TEST(StopCriteria, BudgetsEndWhatDoesNotSettle) {
  const auto trend = [](std::size_t i) { return 1e-3 * (1 + 0.01 * static_cast<double>(i)); };
  EXPECT_EQ(play({.budget_s = 0.05}, trend).samples, 50U);
  const Outcome outcome = play({.max_samples = 40}, trend);
  EXPECT_EQ(outcome.reason, StopReason::sample_budget);
  EXPECT_EQ(outcome.samples, 40U);
}

}  // namespace
}  // namespace forecost
