#pragma once

#include <cmath>

#include "core/host_device.hpp"

// Elementwise operations and activations for one element, with their gradients: what the CPU's
// loops and the GPU's kernels both run.

namespace forecost {

/// y = value(a, b); da and db from dy, and from those of a, b and y that the derivatives are
/// written in.
namespace elementwise_rules {

struct Add {
  FORECOST_HOST_DEVICE static float value(float a, float b) { return a + b; }
  FORECOST_HOST_DEVICE static void gradients(float dy, float, float, float, float& da, float& db) {
    da = db = dy;
  }
};
struct Subtract {
  FORECOST_HOST_DEVICE static float value(float a, float b) { return a - b; }
  FORECOST_HOST_DEVICE static void gradients(float dy, float, float, float, float& da, float& db) {
    da = dy;
    db = -dy;
  }
};
struct Multiply {
  FORECOST_HOST_DEVICE static float value(float a, float b) { return a * b; }
  FORECOST_HOST_DEVICE static void gradients(float dy, float a, float b, float, float& da,
                                             float& db) {
    da = dy * b;
    db = dy * a;
  }
};
struct Divide {
  FORECOST_HOST_DEVICE static float value(float a, float b) { return a / b; }
  FORECOST_HOST_DEVICE static void gradients(float dy, float, float b, float y, float& da,
                                             float& db) {
    da = dy / b;
    db = -da * y;
  }
};
struct Power {
  FORECOST_HOST_DEVICE static float value(float a, float b) { return std::pow(a, b); }
  FORECOST_HOST_DEVICE static void gradients(float dy, float a, float b, float y, float& da,
                                             float& db) {
    da = dy * b * std::pow(a, b - 1);
    db = dy * y * std::log(a);
  }
};

}  // namespace elementwise_rules

/// y = value(x); dx = gradient(dy, kept), where `kept` is y, or x of those whose gradient is
/// written in it (`keeps_input`).
namespace activation_rules {

struct Identity {
  static constexpr bool keeps_input = false;
  FORECOST_HOST_DEVICE static float value(float x) { return x; }
  FORECOST_HOST_DEVICE static float gradient(float dy, float) { return dy; }
};
struct Relu {
  static constexpr bool keeps_input = false;
  FORECOST_HOST_DEVICE static float value(float x) { return x > 0 ? x : 0; }
  FORECOST_HOST_DEVICE static float gradient(float dy, float y) { return y > 0 ? dy : 0; }
};
struct Tanh {
  static constexpr bool keeps_input = false;
  FORECOST_HOST_DEVICE static float value(float x) { return std::tanh(x); }
  FORECOST_HOST_DEVICE static float gradient(float dy, float y) { return dy * (1 - y * y); }
};
struct Sigmoid {
  static constexpr bool keeps_input = false;
  FORECOST_HOST_DEVICE static float value(float x) { return 1 / (1 + std::exp(-x)); }
  FORECOST_HOST_DEVICE static float gradient(float dy, float y) { return dy * y * (1 - y); }
};
/// By the error function, not the approximation by tanh.
struct Gelu {
  static constexpr bool keeps_input = true;
  FORECOST_HOST_DEVICE static float value(float x) { return x * below(x); }
  FORECOST_HOST_DEVICE static float gradient(float dy, float x) {
    constexpr float root_half_inverse_pi = 0.398942280F;  // 1 / sqrt(2 pi)
    return dy * (below(x) + x * std::exp(-x * x / 2) * root_half_inverse_pi);
  }

 private:
  /// Of the normal distribution: its integral up to x.
  FORECOST_HOST_DEVICE static float below(float x) {
    return 0.5F * (1 + std::erf(x * 0.707106781F));
  }
};
struct Silu {
  static constexpr bool keeps_input = true;
  FORECOST_HOST_DEVICE static float value(float x) { return x * Sigmoid::value(x); }
  FORECOST_HOST_DEVICE static float gradient(float dy, float x) {
    const float s = Sigmoid::value(x);
    return dy * s * (1 + x * (1 - s));
  }
};

}  // namespace activation_rules
}  // namespace forecost
