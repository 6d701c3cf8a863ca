#pragma once

#include <cstdint>
#include <string_view>

namespace forecost {

/// A matrix in row-major order; `stride` is the distance of rows in elements. `transposed` means
/// that the product uses its transpose; rows and columns are those of the operand as the product
/// sees it.
struct MatrixView {
  const float* data;
  std::int64_t stride;
  bool transposed = false;
};

/// The one product that training and prediction spend their time in. Implementations: Eigen
/// (always), oneDNN (train/gemm_onednn.cpp). Each runs on the calling thread alone.
class Gemm {
 public:
  virtual ~Gemm() = default;
  virtual std::string_view name() const = 0;
  /// c (m x n) = a (m x k) b (k x n) + beta c, with beta 0 or 1. c overlaps neither a nor b.
  virtual void multiply(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView a, MatrixView b,
                        float beta, float* c, std::int64_t c_stride) const = 0;
};

const Gemm& eigen_gemm();

}  // namespace forecost
