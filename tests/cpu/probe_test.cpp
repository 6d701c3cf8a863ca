#include "collect/backends/cpu/probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "collect/backends/cpu/cpu_backend.hpp"

namespace forecost::cpu {
namespace {

TEST(Probe, SetsWhatItFindsAndTellsTheSpread) {
  const auto backend = cpu_backend.open({.cores = 1});
  ASSERT_NE(backend, nullptr);
  int rounds = 0;
  const ProbeReport report = backend->probe(0, [&] { ++rounds; });
  EXPECT_GE(report.rounds, 1);  // three, unless this machine is very busy
  EXPECT_LE(report.rounds, ProbeReport::enough_rounds);
  EXPECT_EQ(rounds, report.rounds);
  const Device& device = backend->device();
  for (const Attribute attribute :
       {Attribute::probed_f32_flops, Attribute::probed_bandwidth_bytes_per_s,
        Attribute::probed_cache_bandwidth_bytes_per_s, Attribute::probed_host_link_bytes_per_s,
        Attribute::probed_launch_latency_s, Attribute::probed_cache_bytes}) {
    const auto name = attribute_table()[static_cast<std::size_t>(attribute)].name;
    EXPECT_TRUE(device.has(attribute)) << name;
    ASSERT_TRUE(report.spread.contains(attribute)) << name;
    EXPECT_GE(report.spread.at(attribute), 0) << name;
  }
  EXPECT_EQ(device.has(Attribute::probed_bf16_flops), cpu_has_bf16());
  EXPECT_FALSE(device.has(Attribute::probed_allreduce_bytes_per_s));

  // From the first-level cache of a core to far beyond the last one, by factors of two.
  const BandwidthCurve& curve = device.bandwidth_curve();
  ASSERT_GT(curve.size(), 10U);
  EXPECT_EQ(curve.begin()->first, 32 * 1024);
  EXPECT_EQ(curve.rbegin()->first, 512 * 1024 * 1024);
  EXPECT_EQ(curve.size(), report.curve_spread.size());
  double fastest = 0;
  for (const auto& [bytes, bytes_per_s] : curve) fastest = std::max(fastest, bytes_per_s);
  EXPECT_EQ(fastest, device[Attribute::probed_cache_bandwidth_bytes_per_s]);
  // No CPU reads its memory as fast as its first-level cache, however disturbed.
  EXPECT_LT(device[Attribute::probed_bandwidth_bytes_per_s], fastest);
  // A byte that is copied is read and written.
  EXPECT_LT(device[Attribute::probed_host_link_bytes_per_s],
            device[Attribute::probed_cache_bandwidth_bytes_per_s]);
}

TEST(Probe, ASecondOneKeepsTheLargerLimitsAndTheCurve) {
  const auto backend = cpu_backend.open({.cores = 1});
  ASSERT_NE(backend, nullptr);
  backend->probe(0, {});
  backend->set_probed(Attribute::probed_host_link_bytes_per_s, 1e15);
  backend->set_probed(Attribute::probed_allreduce_bytes_per_s, 1e9);
  const Device before = backend->device();
  ASSERT_TRUE(backend->confirm_limits());
  const Device& after = backend->device();
  EXPECT_EQ(after[Attribute::probed_host_link_bytes_per_s], 1e15);
  EXPECT_EQ(after[Attribute::probed_allreduce_bytes_per_s], 1e9);
  EXPECT_EQ(after.bandwidth_curve(), before.bandwidth_curve());
  EXPECT_EQ(after[Attribute::probed_launch_latency_s], before[Attribute::probed_launch_latency_s]);
  EXPECT_GE(after[Attribute::probed_f32_flops], before[Attribute::probed_f32_flops]);
}

}  // namespace
}  // namespace forecost::cpu
