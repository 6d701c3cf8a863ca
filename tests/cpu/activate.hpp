#pragma once

#include <algorithm>
#include <cmath>

#include "data/vocabulary.hpp"

namespace forecost {

/// f(z), for the plain references that measured layers and networks are compared with.
inline double activate(Activation activation, double z) {
  switch (activation) {
    case Activation::relu:
      return std::max(z, 0.0);
    case Activation::tanh:
      return std::tanh(z);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-z));
    case Activation::none:
      break;
  }
  return z;
}

}  // namespace forecost
