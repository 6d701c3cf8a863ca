#pragma once

#include "collect/reference/reference.hpp"

// The references that reference.cpp registers. Each states the dims of its operands.

namespace forecost {

/// dense and conv2d. src [batch, in, (h, w)], weights [out, in/groups, (kh, kw)], bias [out], dst.
/// backward_data: diff_dst, weights, and dst where there is an activation -> diff_src.
/// backward_weights: src and diff_dst, the gradient before the activation -> diff_weights,
/// diff_bias.
Operands affine_reference(const Task& task, const Operands& operands);

}  // namespace forecost
