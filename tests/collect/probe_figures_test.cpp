#include "collect/probe_figures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forecost {
namespace {

using testing::HasSubstr;

TEST(ProbeFigures, CachesEndWhereTheCurveFallsToMemorysRate) {
  EXPECT_EQ(effective_cache_bytes({{1e6, 64e9}, {2e6, 17e9}, {4e6, 15e9}, {8e6, 10e9}}), 2e6);
  // A dip among smaller sizes is not the end.
  EXPECT_EQ(effective_cache_bytes({{1e6, 90e9}, {2e6, 9e9}, {4e6, 64e9}, {8e6, 10e9}}), 4e6);
  // All of it comes from one memory: no cache is seen.
  EXPECT_EQ(effective_cache_bytes({{1e6, 15e9}, {2e6, 12e9}, {4e6, 10e9}}), std::nullopt);
}

TEST(ProbeFigures, CachesThatAreNotSeenStayUnknown) {
  ProbeFigures figures;
  for (const double bytes : {1e6, 2e6, 4e6}) figures.curve[bytes].add(1e10 + bytes);
  Device device;
  const ProbeReport report = tell(figures, 1, upper_quartile, device);
  EXPECT_FALSE(device.has(Attribute::probed_cache_bytes));
  EXPECT_FALSE(report.spread.contains(Attribute::probed_cache_bytes));
  EXPECT_TRUE(device.has(Attribute::probed_cache_bandwidth_bytes_per_s));
}

TEST(ProbeFigures, AQuarterOfTheRoundsReachWhatIsTold) {
  ProbeFigures figures;
  for (const double flops : {9e12, 1e12, 5e12, 4e12, 3e12}) {
    figures.rates[Attribute::probed_f32_flops].add(flops);
    figures.launches_per_s.add(flops / 1e7);
    figures.curve[1e6].add(flops);
    figures.curve[2e6].add(1e12);
  }
  Device device;
  const ProbeReport report = tell(figures, 5, upper_quartile, device);
  EXPECT_EQ(report.rounds, 5);
  EXPECT_EQ(device[Attribute::probed_f32_flops], 5e12);
  EXPECT_DOUBLE_EQ(device[Attribute::probed_launch_latency_s], 1 / 5e5);
  EXPECT_EQ(device[Attribute::probed_cache_bandwidth_bytes_per_s], 5e12);
  EXPECT_EQ(device[Attribute::probed_cache_bytes], 1e6);
  EXPECT_NEAR(report.spread.at(Attribute::probed_f32_flops), 0.2, 1e-12);  // 4 of 5

  tell(figures, 5, best_round, device);
  EXPECT_EQ(device[Attribute::probed_f32_flops], 9e12);
}

TEST(ProbeFigures, ThrottledRoundsCountOnlyWhereThereAreNoOthers) {
  ProbeFigures figures;
  Series& some = figures.rates[Attribute::probed_f32_flops];
  some.add(1e12, true);
  some.add(4e12);
  some.add(2e12, true);
  Series& all = figures.rates[Attribute::probed_f16_flops];
  for (const double flops : {1e12, 3e12}) all.add(flops, true);
  figures.curve[1e6].add(5e12, true);
  Device device;
  const ProbeReport report = tell(figures, 3, upper_quartile, device);
  EXPECT_EQ(device[Attribute::probed_f32_flops], 4e12);
  EXPECT_EQ(device[Attribute::probed_f16_flops], 2.5e12);
  EXPECT_EQ(report.throttled,
            (std::set{Attribute::probed_f16_flops, Attribute::probed_cache_bandwidth_bytes_per_s}));
  EXPECT_EQ(report.curve_throttled, std::set{1e6});
}

TEST(ProbeFigures, WhatCannotBeIsToldByWhichSideItIsOff) {
  ProbeFigures figures;
  figures.rates[Attribute::probed_f32_flops].add(1e18);
  figures.rates[Attribute::probed_f16_flops].add(1);
  figures.launches_per_s.add(1e12);
  Device device;
  const ProbeReport report = tell(figures, 1, upper_quartile, device);
  ASSERT_EQ(report.warnings.size(), 3U);
  EXPECT_THAT(report.warnings[0], HasSubstr("no device is that fast"));
  EXPECT_THAT(report.warnings[1], HasSubstr("is the machine busy?"));
  EXPECT_THAT(report.warnings[2], HasSubstr("no device is that fast"));
  EXPECT_FALSE(device.has(Attribute::probed_f32_flops));
}

TEST(ProbeFigures, RoundsFillTheBudgetAndAreThreeAtLeast) {
  double now = 0;
  int calls = 0;
  const auto clock = [&] { return now; };
  const auto round = [&](int number) {
    EXPECT_EQ(number, calls++);
    now += 2;
  };
  EXPECT_EQ(probe_rounds(9, clock, round, {}), 4);  // a fifth one would end after 10 s
  calls = 0;
  EXPECT_EQ(probe_rounds(0, clock, round, {}), 3);
}

}  // namespace
}  // namespace forecost
