#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>

#include "core/host_device.hpp"

namespace forecost {

/// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014): a good 64-bit hash of a counter.
FORECOST_HOST_DEVICE constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// The draw number `index`, from 0, of Random(seed, stream).
FORECOST_HOST_DEVICE constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream,
                                                         std::uint64_t index) {
  return mix64((mix64(seed) ^ mix64(~stream)) + index);
}

/// A number in [0, 1) from the upper 53 bits.
constexpr double to_unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

/// A small generator whose whole sequence is the same on every machine and library, unlike the
/// standard distributions. Also callable by counter: Random(seed, stream) for row- or task-bound
/// draws that do not depend on who draws them.
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed, std::uint64_t stream = 0)
      : state_(mix64(seed) ^ mix64(~stream)) {}

  constexpr std::uint64_t bits() { return mix64(state_++); }
  constexpr double uniform() { return to_unit(bits()); }
  constexpr double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// In [0, n); n > 0. The bias is below n / 2^64.
  constexpr std::uint64_t below(std::uint64_t n) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(bits()) * n) >> 64);
  }
  /// Standard normal, by Box and Muller.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  /// Fisher-Yates.
  template <class Container>
  void shuffle(Container& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace forecost
