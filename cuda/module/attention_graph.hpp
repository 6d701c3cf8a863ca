#pragma once

#include <cstddef>

#include "cuda/module/cudnn_graph.hpp"

namespace forecost::cuda {

/// Fused attention as operations; operands in the order of the interface's tensors. Throws
/// Failure(unsupported) for what no engine of this version of cuDNN computes.
OperationGraph attention_graph(const Attention& attention, std::size_t cudnn_version);

}  // namespace forecost::cuda
