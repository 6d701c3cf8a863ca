#include "data/operators/layer_norm.hpp"

#include <cmath>

#include "collect/reference/references.hpp"

namespace forecost {

Operands layer_norm_reference(const Task& task, const Operands& operands) {
  const LayerNormShape s = layer_norm_shape(task.layer);
  const auto features = static_cast<std::size_t>(s.features);
  const auto n = static_cast<double>(features);
  const std::vector<double> ones(features, 1), zeros(features, 0);
  const bool forward = task.pass == Pass::forward;
  const auto& x = operands.at("src");
  const auto& scale = s.affine ? operands.at("scale") : ones;
  const auto& shift = s.affine && forward ? operands.at("shift") : zeros;
  std::vector<double> result(x.size()), diff_scale(features), diff_shift(features);
  for (std::size_t row = 0; row < x.size(); row += features) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < features; ++i) mean += x[row + i] / n;
    for (std::size_t i = 0; i < features; ++i) variance += std::pow(x[row + i] - mean, 2) / n;
    const double deviation = std::sqrt(variance + 1e-5);
    const auto normal = [&](std::size_t i) { return (x[row + i] - mean) / deviation; };
    if (forward) {
      for (std::size_t i = 0; i < features; ++i) result[row + i] = normal(i) * scale[i] + shift[i];
      continue;
    }
    const auto& dy = operands.at("diff_dst");
    double sum = 0, normal_sum = 0;
    for (std::size_t i = 0; i < features; ++i) {
      const double d = dy[row + i] * scale[i];
      sum += d;
      normal_sum += d * normal(i);
      diff_scale[i] += dy[row + i] * normal(i);
      diff_shift[i] += dy[row + i];
    }
    for (std::size_t i = 0; i < features; ++i) {
      const double d = dy[row + i] * scale[i];
      result[row + i] = (d - sum / n - normal(i) * normal_sum / n) / deviation;
    }
  }
  if (forward) return {{"dst", std::move(result)}};
  Operands results{{"diff_src", std::move(result)}};
  if (s.affine) {
    results["diff_scale"] = std::move(diff_scale);
    results["diff_shift"] = std::move(diff_shift);
  }
  return results;
}

}  // namespace forecost
