#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/model/aligned.hpp"
#include "train/model/gemm.hpp"

namespace forecost {

/// A multi-layer perceptron with ReLU between layers and one linear output. Layer l maps widths[l]
/// to widths[l + 1]. All parameters lie in one buffer, layer after layer: weights (in x out,
/// row-major), then bias (out), each padded to a cache line.
class MlpShape {
 public:
  MlpShape() = default;
  MlpShape(std::int64_t inputs, std::span<const std::int64_t> hidden);
  /// `widths`: inputs, hidden ones, 1.
  const std::vector<std::int64_t>& widths() const { return widths_; }
  std::size_t layers() const { return widths_.size() - 1; }
  std::size_t weights_at(std::size_t layer) const { return offsets_[2 * layer]; }
  std::size_t bias_at(std::size_t layer) const { return offsets_[2 * layer + 1]; }
  /// Elements of the parameter buffer, with padding.
  std::size_t size() const { return offsets_.back(); }
  /// Multiply-adds of one row, forward.
  double macs() const;

 private:
  std::vector<std::int64_t> widths_;
  std::vector<std::size_t> offsets_{0};
};

/// Activations of up to `rows` rows: hidden[l] is the output of layer l, rows x widths[l + 1].
struct MlpWorkspace {
  MlpWorkspace(const MlpShape& shape, std::int64_t rows);
  std::int64_t rows;
  std::vector<Floats> hidden;
};

/// Hidden layers of `rows` rows of `x` (rows x inputs) into the workspace.
void mlp_hidden(const Gemm& gemm, const MlpShape& shape, const float* parameters, const float* x,
                std::int64_t rows, MlpWorkspace& workspace);
/// The linear output of the last hidden activations: y[rows].
void mlp_output(const MlpShape& shape, const float* parameters, const float* last_hidden,
                std::int64_t rows, float* y);
/// Both, in blocks that stay in the cache.
void mlp_predict(const Gemm& gemm, const MlpShape& shape, std::span<const float> parameters,
                 const float* x, std::int64_t rows, float* y);

}  // namespace forecost
