#pragma once

#include <cstdint>

#include "data/layer.hpp"

namespace forecost {

/// The parameters of a `softmax` layer: each of batch x rows rows of `features` elements becomes
/// positive and sums to 1.
struct SoftmaxShape {
  std::int64_t batch, rows, features;
};
/// The layer must be a softmax.
SoftmaxShape softmax_shape(const Layer& layer);

extern const Operator softmax_operator;

}  // namespace forecost
