#pragma once

#include <cstdint>

#include "data/layer.hpp"

namespace forecost {

/// The parameters of a `layer_norm` layer: each of batch x rows rows of `features` elements is
/// normalised to mean 0 and variance 1, then scaled and shifted elementwise where it is affine.
struct LayerNormShape {
  std::int64_t batch, rows, features;
  bool affine;
};
/// The layer must be a layer_norm.
LayerNormShape layer_norm_shape(const Layer& layer);

extern const Operator layer_norm_operator;

}  // namespace forecost
