#pragma once

#include <cstdint>

#include "data/layer.hpp"

namespace forecost {

/// The parameters of a `dense` layer: (batch x in_features) times weights (in_features x
/// out_features).
struct DenseShape {
  std::int64_t batch, in_features, out_features;
  bool bias;
  Activation activation;
};
/// The layer must be a dense one.
DenseShape dense_shape(const Layer& layer);

extern const Operator dense_operator;

}  // namespace forecost
