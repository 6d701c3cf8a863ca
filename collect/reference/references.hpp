#pragma once

#include "collect/reference/reference.hpp"

// The references that reference.cpp registers. Each states the dims of its operands.

namespace forecost {

/// dense and conv2d. src [batch, in, (h, w)], weights [out, in/groups, (kh, kw)], bias [out], dst.
/// backward_data: diff_dst, weights, and dst where there is an activation -> diff_src.
/// backward_weights: src and diff_dst, the gradient before the activation -> diff_weights,
/// diff_bias.
Operands affine_reference(const Task& task, const Operands& operands);

/// src [batch, features] -> dst. backward: diff_dst and dst, of gelu and silu src -> diff_src.
Operands activation_reference(const Task& task, const Operands& operands);

/// query [batch, heads, query_length, head_features], key and value [batch, heads, key_length,
/// head_features] -> dst. backward: diff_dst besides -> diff_query, diff_key, diff_value.
Operands attention_reference(const Task& task, const Operands& operands);

/// src [batch, channels, height, width], scale, shift [channels], and mean, variance [channels]
/// where they are stored -> dst, and mean and variance where they are the batch's. backward:
/// diff_dst besides -> diff_src, diff_scale, diff_shift.
Operands batch_norm_reference(const Task& task, const Operands& operands);

/// src [batch, in, h, w], weights [out, in/groups, kh, kw] (the library's order: frameworks have
/// the input channels first), bias [out], dst. backward_data: diff_dst, weights -> diff_src.
/// backward_weights: src, diff_dst -> diff_weights, diff_bias.
Operands conv_transpose2d_reference(const Task& task, const Operands& operands);

/// src [batch, features], mask (1 where an element is kept, as the case chose) -> dst, a tenth
/// being dropped. backward: diff_dst and mask -> diff_src.
Operands dropout_reference(const Task& task, const Operands& operands);

/// src and, where it is a tensor, other, both [batch, features] -> dst. backward: diff_dst and
/// those of src, other and dst that the derivatives are written in -> diff_src, diff_other.
Operands elementwise_reference(const Task& task, const Operands& operands);

/// ids [batch, length], weights [entries, features] -> dst [batch, length, features]. backward: ids
/// and diff_dst -> diff_weights.
Operands embedding_reference(const Task& task, const Operands& operands);

/// src [batch, rows, features], scale and shift [features] -> dst. backward: diff_dst, src, scale
/// -> diff_src, diff_scale, diff_shift. No scale and shift without affine.
Operands layer_norm_reference(const Task& task, const Operands& operands);

/// src [batch, m, k], src1 [batch, k, n], dst [batch, m, n]. backward: src, src1 and diff_dst ->
/// diff_src, diff_src1.
Operands matmul_reference(const Task& task, const Operands& operands);

/// src [batch, channels, h, w] -> dst. backward: diff_dst, and src of max, whose gradient goes to
/// the first of equal elements -> diff_src.
Operands pool2d_reference(const Task& task, const Operands& operands);

/// src [batch, rows, features] -> dst, without the axis that goes. backward: diff_dst, and of max
/// index, the places of the largest elements along that axis -> diff_src.
Operands reduce_reference(const Task& task, const Operands& operands);

/// src [steps, batch, in], and of each layer weights_layer_0 [directions, in, gates, hidden],
/// weights_iter_0 [directions, hidden, gates, hidden] and bias_0 [directions, gates, hidden], the
/// sum of the two biases, with that of the product which the reset gate scales as a fourth gate of
/// a gru -> dst [steps, batch, directions * hidden]. The gates of an lstm are input, forget, cell
/// and output, those of a gru update, reset and candidate. backward: diff_dst besides -> diff_src,
/// diff_weights_layer_0, diff_weights_iter_0, diff_bias_0, ...
Operands rnn_reference(const Task& task, const Operands& operands);

/// src [batch, rows, features] -> dst. backward: diff_dst and dst -> diff_src.
Operands softmax_reference(const Task& task, const Operands& operands);

/// src [batch, features] -> dst.
Operands transfer_reference(const Task& task, const Operands& operands);

/// f(z) of a fused activation.
double activate(Activation activation, double z);

}  // namespace forecost
