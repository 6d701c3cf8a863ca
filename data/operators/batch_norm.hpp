#pragma once

#include <cstdint>

#include "data/layer.hpp"

namespace forecost {

/// The parameters of a `batch_norm` layer: each of `channels` channels of batch x channels x height
/// x width elements is normalised, then scaled and shifted by its gain and bias. With `training` by
/// the mean and variance of the batch, without by stored ones: a scale and a shift.
struct BatchNormShape {
  std::int64_t batch, channels, height, width;
  bool training;
};
/// The layer must be a batch_norm.
BatchNormShape batch_norm_shape(const Layer& layer);

extern const Operator batch_norm_operator;

}  // namespace forecost
