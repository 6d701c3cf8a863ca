#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define FORECOST_COUNTER_HASH __host__ __device__ inline
#else
#define FORECOST_COUNTER_HASH inline
#endif

// The random numbers that operands are filled with: each a function of the seed and its place, so
// that they are the same on every device and in any order of threads, and a test can repeat them.

namespace forecost::cuda {

/// 64 random bits: SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", 2014), its state after index + 1 steps from the seed.
FORECOST_COUNTER_HASH std::uint64_t counter_hash(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// Uniform in [low, high), of 24 random bits.
FORECOST_COUNTER_HASH double counter_uniform(std::uint64_t seed, std::uint64_t index, double low,
                                             double high) {
  // fma, since a compiler's own choice to contract would make results differ in the last bit.
  return fma(high - low, static_cast<double>(counter_hash(seed, index) >> 40) / 16777216.0, low);
}

/// Uniform in [0, bound) but for a bias of bound / 2^64.
FORECOST_COUNTER_HASH std::int64_t counter_index(std::uint64_t seed, std::uint64_t index,
                                                 std::int64_t bound) {
  return static_cast<std::int64_t>(counter_hash(seed, index) % static_cast<std::uint64_t>(bound));
}

}  // namespace forecost::cuda

#undef FORECOST_COUNTER_HASH
