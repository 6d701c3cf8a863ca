#pragma once

#include "data/operators/activation.hpp"

namespace forecost {

/// FLOPs per output element of a fused activation, forward and gradient.
constexpr ActivationCost activation_cost(Activation activation) {
  switch (activation) {
    case Activation::none:
      return {0, 0};
    case Activation::relu:
      return activation_cost(ActivationFunction::relu);
    case Activation::tanh:
      return activation_cost(ActivationFunction::tanh);
    case Activation::sigmoid:
      return activation_cost(ActivationFunction::sigmoid);
  }
  return {0, 0};
}

/// An affine operator (dense, convolution) with bias and fused activation, seen as multiply-adds
/// between three tensors. `macs` is the number of multiply-adds of each of the three products.
struct AffineCost {
  double macs, input, weights, output;  ///< elements
  double bias;                          ///< elements, 0 without
  Activation activation;
  double padding_macs = 0;        ///< part of `macs` whose input is padding
  double stepped_over_input = 0;  ///< elements of the input that a stride leaves out
};

inline constexpr Pass affine_passes[] = {Pass::forward, Pass::backward_data, Pass::backward_weights,
                                         Pass::update, Pass::training_step};

/// Its `parameter_tensors`: elements of the weights, and of the bias where there are any.
std::vector<std::int64_t> weights_and_bias(std::int64_t weights, std::int64_t bias);

/// FLOPs and bytes of forward, backward_data and backward_weights of an affine operator. Forward:
/// y = f(w x + b). backward_data: dz = dy f'(y), dx = w' dz (reads dy, w, and y for f'; writes dz
/// where there is an f, and dx). backward_weights: dw = dz x', db = sum dz.
Work affine_work(const AffineCost& cost, Pass pass, DType dtype);

}  // namespace forecost
