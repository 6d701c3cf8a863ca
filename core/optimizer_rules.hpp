#pragma once

#include <cmath>
#include <cstdint>

#include "core/host_device.hpp"

// Optimizers for one element, as data/work.hpp counts them: what the CPU's loops and the GPU's
// kernels both run.

namespace forecost {

/// The values frameworks take when a user gives none.
struct UpdateRates {
  float rate = 0.01F, momentum = 0.9F, decay = 0.9F, beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F,
        weight_decay = 0.01F;
};

/// Everything that is the same for all elements of a step.
struct UpdateFactors : UpdateRates {
  float first_correction, second_correction;  ///< what Adam's moments are divided by
  /// What AdamW's decay leaves of a value, 1 - rate * weight_decay. (As `w -= rate * weight_decay *
  /// w` in the rule it kept GCC 12 from vectorising bf16, which took 13 times as long as Adam.)
  float kept_weight;

  /// `step` counts from 1.
  UpdateFactors(const UpdateRates& rates, std::int64_t step)
      : UpdateRates(rates),
        first_correction(correction(rates.beta1, step)),
        second_correction(correction(rates.beta2, step)),
        kept_weight(1 - rates.rate * rates.weight_decay) {}

 private:
  static float correction(float beta, std::int64_t step) {
    return static_cast<float>(1 - std::pow(static_cast<double>(beta), static_cast<double>(step)));
  }
};

// One rule per optimizer: w the value of an element, g its gradient, a and b its state, of which a
// rule has `states` and leaves the rest alone.
namespace update_rules {

struct Sgd {
  static constexpr int states = 0;
  FORECOST_HOST_DEVICE static void apply(const UpdateFactors& f, float& w, float g, float*,
                                         float*) {
    w -= f.rate * g;
  }
};
struct Momentum {
  static constexpr int states = 1;
  FORECOST_HOST_DEVICE static void apply(const UpdateFactors& f, float& w, float g, float* a,
                                         float*) {
    *a = f.momentum * *a + g;
    w -= f.rate * *a;
  }
};
struct Adagrad {
  static constexpr int states = 1;
  FORECOST_HOST_DEVICE static void apply(const UpdateFactors& f, float& w, float g, float* a,
                                         float*) {
    *a += g * g;
    w -= f.rate * g / (std::sqrt(*a) + f.epsilon);
  }
};
struct Adadelta {
  static constexpr int states = 2;
  FORECOST_HOST_DEVICE static void apply(const UpdateFactors& f, float& w, float g, float* a,
                                         float* b) {
    *a = f.decay * *a + (1 - f.decay) * g * g;
    const float change = std::sqrt(*b + f.epsilon) / std::sqrt(*a + f.epsilon) * g;
    *b = f.decay * *b + (1 - f.decay) * change * change;
    w -= f.rate * change;
  }
};
struct Rmsprop {
  static constexpr int states = 1;
  FORECOST_HOST_DEVICE static void apply(const UpdateFactors& f, float& w, float g, float* a,
                                         float*) {
    *a = f.decay * *a + (1 - f.decay) * g * g;
    w -= f.rate * g / (std::sqrt(*a) + f.epsilon);
  }
};
struct Adam {
  static constexpr int states = 2;
  FORECOST_HOST_DEVICE static void apply(const UpdateFactors& f, float& w, float g, float* a,
                                         float* b) {
    *a = f.beta1 * *a + (1 - f.beta1) * g;
    *b = f.beta2 * *b + (1 - f.beta2) * g * g;
    w -= f.rate * (*a / f.first_correction) / (std::sqrt(*b / f.second_correction) + f.epsilon);
  }
};
struct AdamW {
  static constexpr int states = 2;
  FORECOST_HOST_DEVICE static void apply(const UpdateFactors& f, float& w, float g, float* a,
                                         float* b) {
    w *= f.kept_weight;
    Adam::apply(f, w, g, a, b);
  }
};

}  // namespace update_rules
}  // namespace forecost
