#include "train/model/normaliser.hpp"

#include <algorithm>
#include <cmath>

namespace forecost {

Normaliser Normaliser::fit(std::span<const double> values, std::size_t features) {
  const std::size_t rows = values.size() / features;
  const auto n = static_cast<double>(rows);
  Normaliser result;
  for (std::size_t f = 0; f < features; ++f) {
    double sum = 0, low = values[f], high = values[f];
    for (std::size_t r = 0; r < rows; ++r) {
      const double v = values[r * features + f];
      sum += v;
      low = std::min(low, v);
      high = std::max(high, v);
    }
    result.min.push_back(low);
    result.max.push_back(high);
    const double mean = sum / n;
    double squares = 0;
    for (std::size_t r = 0; r < rows; ++r) squares += std::pow(values[r * features + f] - mean, 2);
    const double deviation = std::sqrt(squares / n);
    // Rounding alone gives a constant column a deviation of this order.
    if (high > low && deviation > 1e-9 * std::max(std::abs(low), std::abs(high))) {
      result.kept.push_back(static_cast<std::int64_t>(f));
      result.mean.push_back(mean);
      result.scale.push_back(deviation);
    }
  }
  return result;
}

void Normaliser::apply(std::span<const double> features, float* inputs) const {
  for (std::size_t i = 0; i < kept.size(); ++i) {
    inputs[i] =
        static_cast<float>((features[static_cast<std::size_t>(kept[i])] - mean[i]) / scale[i]);
  }
}

bool Normaliser::outside(std::span<const double> features) const {
  for (std::size_t f = 0; f < min.size(); ++f) {
    const double margin = 0.05 * (max[f] - min[f]) + 1e-9 * std::abs(max[f]);
    if (features[f] < min[f] - margin || features[f] > max[f] + margin) return true;
  }
  return false;
}

}  // namespace forecost
