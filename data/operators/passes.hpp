#pragma once

#include "data/layer.hpp"

// What operators have in common, whatever they compute.

namespace forecost {

/// Of operators whose gradients libraries compute together, and that have nothing to update.
inline constexpr Pass forward_and_backward[] = {Pass::forward, Pass::backward};

/// An operator's own formula: FLOPs and bytes of forward and of the gradients that it has.
using OwnWork = Work (*)(const Layer&, Pass, DType);

/// Work of any pass of an operator: `update` from its parameter tensors, `training_step` as all of
/// its other passes one after the other, and the rest by its own formula. Throws UsageError for a
/// pass that it has not.
Work work_of_passes(const Layer& layer, Pass pass, DType dtype, Optimizer optimizer, OwnWork own);

/// The same, as the `work` of an Operator.
template <OwnWork own>
Work work_of_passes(const Layer& layer, Pass pass, DType dtype, Optimizer optimizer) {
  return work_of_passes(layer, pass, dtype, optimizer, own);
}

/// The `parameter_tensors` of an operator without parameters that training changes.
std::vector<std::int64_t> no_parameter_tensors(const Layer& layer);

}  // namespace forecost
