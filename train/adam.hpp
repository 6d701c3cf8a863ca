#pragma once

#include <cstddef>

#include "core/training_rules.hpp"

namespace forecost {

/// One step for n elements. All arrays have n elements and do not overlap.
void adam_step(const AdamStep& step, std::size_t n, const float* gradient, float* parameters,
               float* first_moment, float* second_moment);

}  // namespace forecost
