#pragma once

#include <cmath>
#include <cstdint>

#include "core/random.hpp"
#include "train/model/mlp.hpp"

namespace forecost {

/// Something to train on: a smooth function of `inputs` numbers, and some noise.
struct TrainingRows {
  TrainingRows(std::int64_t count, std::int64_t inputs) {
    Random random(3);
    for (std::int64_t r = 0; r < count; ++r) {
      double sum = 0;
      for (std::int64_t i = 0; i < inputs; ++i) {
        x.push_back(static_cast<float>(random.uniform(-1, 1)));
        sum += static_cast<double>(i + 1) * static_cast<double>(x.back());
      }
      y.push_back(static_cast<float>(std::sin(sum / 4) + 0.1 * random.normal()));
    }
  }
  Floats x, y;
};

/// The largest difference of two elements; infinite if there are not as many.
inline double largest_difference(const Floats& a, const Floats& b) {
  double largest = a.size() == b.size() ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double apart = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = apart <= largest ? largest : apart;  // NaN counts
  }
  return largest;
}

}  // namespace forecost
