#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "collect/backends/cpu/memory.hpp"

namespace forecost::cpu {
namespace {

constexpr std::size_t operand_bytes = std::size_t{1} << 18;

/// The fastest of several walks over one operand, a float of each cache line in an order that no
/// prefetcher follows, each after prepare().
/// The fastest, since other programs can only make one slower.
template <class Prepare>
double fastest_s(std::span<const float> values, Prepare prepare) {
  double fastest = std::numeric_limits<double>::infinity();
  const std::size_t lines = values.size() / 16;
  float total = 0;
  for (int run = 0; run < 100; ++run) {
    prepare();
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < lines; ++i) total += values[i * 1597 % lines * 16];
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    fastest = std::min(fastest, elapsed.count());
  }
  return std::isfinite(total) ? fastest : 0;
}

class Flushes : public ::testing::TestWithParam<Flush::Means> {};

TEST_P(Flushes, LeaveOperandsColdAndUnchanged) {
  Arena arena;
  arena.reset(operand_bytes);
  const std::span<float> values(static_cast<float*>(arena.take(operand_bytes)),
                                operand_bytes / sizeof(float));
  RandomPool().fill(values, 1, 1);
  const double sum = sum_f32(values);
  Flush flush(GetParam());
  flush.resize(0);  // the least: 8 MiB
  const double hot = fastest_s(values, [] {});
  const double cold = fastest_s(values, [&] { flush(arena.taken()); });
  // The caches may be larger than what is read here, so only evicted lines are certain to be gone.
  if (GetParam() == Flush::Means::evict_lines) {
    EXPECT_GT(cold, 1.5 * hot);
  }
  EXPECT_EQ(sum_f32(values), sum);
}

std::vector<Flush::Means> means() {
  std::vector<Flush::Means> known{Flush::Means::read_buffer};
  if (Flush::best() != known.front()) known.push_back(Flush::best());
  return known;
}
INSTANTIATE_TEST_SUITE_P(Means, Flushes, ::testing::ValuesIn(means()));

TEST(Flush, SaysHowMuchAndHow) {
  const std::vector<std::byte> operands(1000);
  Flush reading(Flush::Means::read_buffer);
  EXPECT_EQ(reading.name(), "read");
  reading.resize(1e3);
  EXPECT_EQ(reading.bytes(operands), 8 << 20);
  reading.resize(1e12);
  EXPECT_EQ(reading.bytes(operands), 256 << 20);
  if (Flush::best() == Flush::Means::evict_lines) {
    EXPECT_EQ(Flush().bytes(operands), 1000);
  }
}

}  // namespace
}  // namespace forecost::cpu
