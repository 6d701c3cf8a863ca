#pragma once

#include <cstdint>

#include "data/layer.hpp"

namespace forecost {

/// The parameters of a `dropout` layer over batch x features elements. It is that of training; in
/// inference it does nothing. The share that is dropped hardly changes the time and is no
/// parameter.
struct DropoutShape {
  std::int64_t batch, features;
};
/// The layer must be a dropout.
DropoutShape dropout_shape(const Layer& layer);

extern const Operator dropout_operator;

}  // namespace forecost
