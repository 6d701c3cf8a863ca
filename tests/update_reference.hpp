#pragma once

#include <cmath>

#include "data/vocabulary.hpp"

namespace forecost {

/// The optimizers' rules in double and one element at a time, as their papers state them.
struct UpdateReference {
  double w, a = 0, b = 0;
  void step(Optimizer optimizer, double g, int t) {
    const double rate = 0.01, decay = 0.9, eps = 1e-8;
    switch (optimizer) {
      case Optimizer::sgd:
        w -= rate * g;
        break;
      case Optimizer::momentum:
        w -= rate * (a = 0.9 * a + g);
        break;
      case Optimizer::adagrad:
        w -= rate * g / (std::sqrt(a += g * g) + eps);
        break;
      case Optimizer::rmsprop:
        a = decay * a + (1 - decay) * g * g;
        w -= rate * g / (std::sqrt(a) + eps);
        break;
      case Optimizer::adadelta: {
        a = decay * a + (1 - decay) * g * g;
        const double d = std::sqrt(b + eps) / std::sqrt(a + eps) * g;
        b = decay * b + (1 - decay) * d * d;
        w -= rate * d;
        break;
      }
      case Optimizer::adamw:
        w -= rate * 0.01 * w;
        [[fallthrough]];
      case Optimizer::adam: {
        a = 0.9 * a + 0.1 * g;
        b = 0.999 * b + 0.001 * g * g;
        const double m = a / (1 - std::pow(0.9, t)), v = b / (1 - std::pow(0.999, t));
        w -= rate * m / (std::sqrt(v) + eps);
        break;
      }
      case Optimizer::none:
        break;
    }
  }
};

}  // namespace forecost
