#pragma once

#include "data/layer.hpp"

namespace forecost {

/// FLOPs per output element of a fused activation, forward and gradient. ReLU: one comparison, one
/// select. Tanh and sigmoid: one transcendental, counted as one FLOP as in the usual convention,
/// plus the arithmetic around it; their gradients need y(1-y) or 1-y*y times the incoming gradient.
struct ActivationCost {
  double forward_flops, backward_flops;
};
constexpr ActivationCost activation_cost(Activation activation) {
  switch (activation) {
    case Activation::none:
      return {0, 0};
    case Activation::relu:
      return {1, 1};
    case Activation::tanh:
      return {1, 3};
    case Activation::sigmoid:
      return {3, 3};
  }
  return {0, 0};
}

/// An affine operator (dense, convolution) with bias and fused activation, seen as multiply-adds
/// between three tensors. `macs` is the number of multiply-adds of each of the three products.
struct AffineCost {
  double macs, input, weights, output;  ///< elements
  double bias;                          ///< elements, 0 without
  Activation activation;
  double padding_macs = 0;  ///< part of `macs` whose input is padding
};

/// FLOPs and bytes of forward, backward_data and backward_weights of an affine operator. Forward:
/// y = f(w x + b). backward_data: dz = dy f'(y), dx = w' dz (reads dy, w, and y for f'; writes dz
/// where there is an f, and dx). backward_weights: dw = dz x', db = sum dz.
Work affine_work(const AffineCost& cost, Pass pass, DType dtype);

/// Work of any pass of an operator, from `split`, its formula for the three split passes: `update`
/// from its parameter tensors, `training_step` as forward + backward + update.
Work work_of_passes(const Layer& layer, Pass pass, DType dtype, Optimizer optimizer,
                    Work (*split)(const Layer&, Pass, DType));

}  // namespace forecost
