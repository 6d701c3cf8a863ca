#pragma once

#include <cstdint>

#include "data/layer.hpp"

namespace forecost {

/// The parameters of a `matmul` layer: C = A B for each of `batch` pairs of matrices, A of m x k
/// and B of k x n. Both are activations: there are no parameters to update.
struct MatmulShape {
  std::int64_t batch, m, n, k;
};
/// The layer must be a matmul.
MatmulShape matmul_shape(const Layer& layer);

extern const Operator matmul_operator;

}  // namespace forecost
