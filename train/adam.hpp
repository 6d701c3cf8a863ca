#pragma once

#include <cstddef>

namespace forecost {

/// One step of Adam (Kingma, Ba 2015) with decoupled weight decay (AdamW, Loshchilov, Hutter 2019).
struct AdamStep {
  double learning_rate;
  double epsilon;
  double weight_decay;
  double l2;  ///< added to the gradient, unlike weight decay
  long step;  ///< 1 for the first
};
/// All arrays have n elements and do not overlap.
void adam_step(const AdamStep& step, std::size_t n, const float* gradient, float* parameters,
               float* first_moment, float* second_moment);

}  // namespace forecost
