#pragma once

#include <cstdint>
#include <span>

#include "train/model/mlp.hpp"
#include "train/recipe.hpp"

namespace forecost {

/// Which hidden units of the last layer a row keeps: drawn from seed and row alone, so that it does
/// not depend on which rank computes the row.
struct Dropout {
  double rate = 0;
  std::uint64_t seed = 0;  ///< of this network and epoch
};

/// Buffers for the gradient of up to `rows` rows.
struct GradientWorkspace {
  GradientWorkspace(const MlpShape& shape, std::int64_t rows);
  Floats x, y;  ///< gathered rows x inputs, targets
  MlpWorkspace forward;
  Floats output;           ///< rows
  Floats delta, delta_in;  ///< rows x widest hidden layer
};

/// Gradient of scale times the sum of the losses of some rows with respect to the parameters,
/// written to gradient (MlpShape::size() elements; padding is set to 0). `x` is all rows x inputs,
/// `y` all targets, `rows` indices into both, at most as many as the workspace holds. Returns the
/// sum of the losses, not scaled.
double mlp_gradient(const Gemm& gemm, const MlpShape& shape, const Recipe& recipe,
                    const Dropout& dropout, const float* parameters, const float* x, const float* y,
                    std::span<const std::uint32_t> rows, double scale, GradientWorkspace& workspace,
                    float* gradient);

}  // namespace forecost
