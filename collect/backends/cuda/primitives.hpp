#pragma once

#include "collect/backends/cuda/recipe.hpp"

// What several operators' recipes are written with.

namespace forecost::cuda {

/// Workspace that a library may ask for: what frameworks grant it (PyTorch's cuBLAS on new GPUs has
/// 32 MiB), and for convolutions more, which their fast algorithms need.
inline constexpr std::int64_t gemm_workspace_bytes = std::int64_t{32} << 20,
                              convolution_workspace_bytes = std::int64_t{1} << 30;

// Each primitive in its envelope.
Primitive primitive(const Copy& copy);
Primitive primitive(const Read& read);
Primitive primitive(const Convolution& convolution);
Primitive primitive(const Gemm& gemm);
Primitive primitive(const Pooling& pooling);
Primitive primitive(const BatchNorm& batch_norm);
Primitive primitive(const Softmax& softmax);
Primitive primitive(const Activation& activation);
Primitive primitive(const Dropout& dropout);
Primitive primitive(const Rnn& rnn);
Primitive primitive(const Attention& attention);
Primitive primitive(const LayerNorm& layer_norm);
Primitive primitive(const Elementwise& elementwise);
Primitive primitive(const BiasActivation& bias_activation);
Primitive primitive(const Embedding& embedding);
Primitive primitive(const Reduce& reduce);
Primitive primitive(const OptimizerStep& step);
Primitive primitive(const Pad& pad);
Primitive primitive(const AllReduce& all_reduce);
/// A kernel that does nothing.
Primitive empty_primitive();

/// C of m x n = A B over k, `batch` times, in the task's dtype by its policy.
Gemm gemm_of(const Recipe& recipe, std::int64_t batch, std::int64_t m, std::int64_t n,
             std::int64_t k);
BiasActivation bias_activation(const Recipe& recipe, Direction direction, Layout layout,
                               std::int64_t n, std::int64_t channels, std::int64_t spatial,
                               Function function);
/// Runs db = sum of dz over everything but channels.
void bias_gradient(Recipe& recipe, Recipe::Id dz, Recipe::Id db, Layout layout, std::int64_t n,
                   std::int64_t channels, std::int64_t spatial);

}  // namespace forecost::cuda
