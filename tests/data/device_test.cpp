#include "data/device.hpp"

#include <set>

#include <gtest/gtest.h>

#include "data/work.hpp"

namespace forecost {
namespace {

TEST(Device, AttributeTableMatchesTheEnumeration) {
  const auto table = attribute_table();
  std::set<std::string_view> names;
  for (const AttributeInfo& info : table) names.insert(info.name);
  EXPECT_EQ(names.size(), attribute_count);
  const auto name = [&](Attribute a) { return table[static_cast<std::size_t>(a)].name; };
  EXPECT_EQ(name(Attribute::clock_hz), "clock_hz");
  EXPECT_EQ(name(Attribute::peak_fp8_flops), "peak_fp8_flops");
  EXPECT_EQ(name(Attribute::compute_capability), "compute_capability");
  EXPECT_EQ(name(Attribute::probed_fp8_flops), "probed_fp8_flops");
  EXPECT_EQ(name(Attribute::probed_allreduce_bytes_per_s), "probed_allreduce_bytes_per_s");
}

TEST(Device, RefusesGigahertzWhereHertzAreMeant) {
  Device device;
  try {
    device.set(Attribute::clock_hz, 1410);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "clock_hz = 1410: expected 1e+08 to 1e+10 Hz");
  }
}

TEST(Device, ProbedReplacesNominal) {
  Device device;
  EXPECT_TRUE(std::isnan(device.peak_flops(DType::bf16)));
  device.set(Attribute::peak_bf16_flops, 2e12);
  EXPECT_EQ(device.peak_flops(DType::bf16), 2e12);
  device.set(Attribute::probed_bf16_flops, 1e12);
  EXPECT_EQ(device.peak_flops(DType::bf16), 1e12);
  EXPECT_TRUE(std::isnan(device.peak_flops(DType::f32)));
}

TEST(Device, RooflineIsTheSlowerOfComputeAndMemory) {
  Device device;
  device.set(Attribute::peak_f32_flops, 1e12);
  device.set(Attribute::bandwidth_bytes_per_s, 1e10);
  EXPECT_DOUBLE_EQ(roofline_s({.flops = 1e12, .bytes_read = 1e9}, DType::f32, device), 1);
  EXPECT_DOUBLE_EQ(
      roofline_s({.flops = 1e9, .bytes_read = 1e10, .bytes_written = 1e10}, DType::f32, device), 2);
  // A dtype without a peak leaves the memory bound.
  EXPECT_DOUBLE_EQ(roofline_s({.flops = 1e12, .bytes_read = 1e10}, DType::bf16, device), 1);
  EXPECT_TRUE(std::isnan(roofline_s({.flops = 1, .bytes_read = 1}, DType::f32, Device())));
}

TEST(Device, CurvesBelongToWhatIsEqual) {
  Device a, b;
  a.set_bandwidth_curve({{65536, 3e11}, {1e9, 2e10}});
  EXPECT_NE(a, b);
  b.set_bandwidth_curve(a.bandwidth_curve());
  EXPECT_EQ(a, b);
  const auto refusal = [&](double bytes, double bytes_per_s) {
    try {
      a.set_bandwidth_curve({{1e6, 1e11}, {bytes, bytes_per_s}});
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(
      refusal(64, 1e11),  // kB for bytes
      "probed_bandwidth_curve has 100 GB/s at 64.0 B: expected 100 MB/s to 1.00 PB/s at 1.00 kB "
      "to 1.00 TB");
  EXPECT_NE(refusal(2e6, 120), "none");  // GB/s for bytes per second
  EXPECT_NE(refusal(2e6, std::nan("")), "none");
  EXPECT_EQ(a, b);  // as it was
}

TEST(Device, ClassAndIdentity) {
  EXPECT_EQ(cpu_class("AMD EPYC 7763 64-Core Processor", 2), "amd-epyc-7763-64-core-processor-2c");
  EXPECT_EQ(cpu_class("Intel(R) Xeon(R)", 16), "intel-r-xeon-r-16c");
  Device a, b;
  a.uuid = b.uuid = "u";
  b.set(Attribute::probed_f32_flops, 1e12);
  EXPECT_EQ(a.id(), b.id());  // probing again does not make another device
  b.uuid = "v";
  EXPECT_NE(a.id(), b.id());
}

}  // namespace
}  // namespace forecost
