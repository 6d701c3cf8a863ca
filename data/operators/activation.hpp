#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "data/layer.hpp"

namespace forecost {

/// What an `activation` layer computes of each element. Unlike the Activation fused into another
/// layer it is never none.
enum class ActivationFunction : std::uint8_t { relu, tanh, sigmoid, gelu, silu };
template <>
struct EnumNames<ActivationFunction> {
  static constexpr std::string_view kind = "activation function";
  static constexpr std::array<std::string_view, 5> names{"relu", "tanh", "sigmoid", "gelu", "silu"};
};

/// FLOPs per element of an activation, forward and gradient, counted from its definition. An
/// exponential, erf or tanh is one FLOP, as in the usual convention.
struct ActivationCost {
  double forward_flops, backward_flops;
};
constexpr ActivationCost activation_cost(ActivationFunction function) {
  switch (function) {
    case ActivationFunction::relu:  // one comparison with zero; one selection
      return {1, 1};
    case ActivationFunction::tanh:  // dx = dy (1 - y y)
      return {1, 3};
    case ActivationFunction::sigmoid:  // y = 1 / (1 + exp -x); dx = dy y (1 - y)
      return {3, 3};
    // Hendrycks, Gimpel 2016 (arXiv 1606.08415), by erf: y = x P, P = (1 + erf(x / sqrt 2)) / 2;
    // dx = dy (P + x exp(-x x / 2) / sqrt(2 pi)).
    case ActivationFunction::gelu:
      return {5, 11};
    // The same, and Ramachandran, Zoph, Le 2017 (arXiv 1710.05941): y = x s, s = sigmoid x;
    // dx = dy s (1 + x (1 - s)).
    case ActivationFunction::silu:
      return {4, 8};
  }
  return {0, 0};
}

/// The parameters of an `activation` layer: a function of each of batch x features elements.
struct ActivationShape {
  std::int64_t batch, features;
  ActivationFunction function;
};
/// The layer must be an activation.
ActivationShape activation_shape(const Layer& layer);

extern const Operator activation_operator;

}  // namespace forecost
