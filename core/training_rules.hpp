#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.hpp"
#include "core/random.hpp"

// The mathematics of a training step for one row or one element: what the CPU's loops and the
// GPU's kernels both run.

namespace forecost {

enum class Loss : std::uint8_t {
  absolute,  ///< |error|, rounded off (Huber) within `huber_delta`
  squared
};

/// Loss of one row and its derivative with respect to the error.
struct RowLoss {
  double value;
  float slope;
};
/// `error`: predicted - target. `huber_delta`: where the absolute loss is rounded off (Huber 1964,
/// divided by delta, so that its slope far out is 1).
FORECOST_HOST_DEVICE inline RowLoss row_loss(Loss loss, float huber_delta, float error) {
  if (loss == Loss::squared) {
    return {static_cast<double>(error) * static_cast<double>(error), 2 * error};
  }
  const float size = std::fabs(error), slope = error / huber_delta;
  return {static_cast<double>(size < huber_delta ? error * error / (2 * huber_delta)
                                                 : size - huber_delta / 2),
          slope < -1 ? -1.0F : (slope > 1 ? 1.0F : slope)};
}

/// The gradient through a ReLU whose output is known.
FORECOST_HOST_DEVICE inline float rectified_gradient(float output, float gradient) {
  return output > 0 ? gradient : 0;
}

/// Inverted dropout (Srivastava et al. 2014): what is kept is scaled, so that the expectation
/// stays. What an activation and its gradient are multiplied with is a function of seed, row and
/// column alone, so that it does not matter which rank or device computes the row.
struct DropoutRule {
  std::uint64_t threshold;  ///< draws of 32 bits below it drop the unit
  float kept;
  explicit DropoutRule(double rate)
      : threshold(static_cast<std::uint64_t>(rate * 0x1p32)),
        kept(static_cast<float>(1 / (1 - rate))) {}
  FORECOST_HOST_DEVICE float factor(std::uint64_t seed, std::uint64_t row,
                                    std::uint64_t column) const {
    return (random_bits(seed, row, column) >> 32) < threshold ? 0 : kept;
  }
};

/// One step of Adam (Kingma, Ba 2015) with decoupled weight decay (AdamW, Loshchilov, Hutter 2019).
struct AdamStep {
  double learning_rate;
  double epsilon;
  double weight_decay;
  double l2;          ///< added to the gradient, unlike weight decay
  std::int64_t step;  ///< 1 for the first
};

/// Everything of a step that is the same for all elements.
struct AdamFactors {
  float beta1, beta2, take1, take2, rate, root_scale, epsilon, keep, l2;

  explicit AdamFactors(const AdamStep& s) {
    constexpr double first_beta = 0.9, second_beta = 0.999;  // as in the paper
    const auto t = static_cast<double>(s.step);
    beta1 = static_cast<float>(first_beta);
    beta2 = static_cast<float>(second_beta);
    take1 = static_cast<float>(1 - first_beta);
    take2 = static_cast<float>(1 - second_beta);
    rate = static_cast<float>(s.learning_rate / (1 - std::pow(first_beta, t)));
    root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(second_beta, t)));
    epsilon = static_cast<float>(s.epsilon);
    keep = static_cast<float>(1 - s.learning_rate * s.weight_decay);
    l2 = static_cast<float>(s.l2);
  }
};

/// One element; `first` and `second` are its moments.
FORECOST_HOST_DEVICE inline void adam_rule(const AdamFactors& f, float gradient, float& parameter,
                                           float& first, float& second) {
  const float g = gradient + f.l2 * parameter;
  first = f.beta1 * first + f.take1 * g;
  second = f.beta2 * second + f.take2 * g * g;
  parameter = f.keep * parameter - f.rate * first / (std::sqrt(second) * f.root_scale + f.epsilon);
}

}  // namespace forecost
