#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace forecost {

/// Standardises features: (value - mean) / scale of those that vary over the training rows. A
/// feature that does not vary is dropped, never divided by its zero deviation; its constant is
/// remembered in min = max, so that a query which differs is known to lie outside the training
/// range.
struct Normaliser {
  std::vector<std::int64_t> kept;   ///< indices of the features that vary
  std::vector<double> mean, scale;  ///< of the kept ones
  std::vector<double> min, max;     ///< of all

  /// `rows` x `features`, row-major; at least one row.
  static Normaliser fit(std::span<const double> values, std::size_t features);

  std::size_t features() const { return min.size(); }
  std::size_t inputs() const { return kept.size(); }
  /// One row of features to one row of inputs.
  void apply(std::span<const double> features, float* inputs) const;
  /// Whether a feature lies beyond the training rows' range by more than 5 % of it.
  bool outside(std::span<const double> features) const;
};

}  // namespace forecost
