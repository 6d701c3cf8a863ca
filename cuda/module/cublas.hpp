#pragma once

#include <cublas_v2.h>

#include <cstdint>

#include "cuda/module/context.hpp"

namespace forecost::cuda {

/// One operand of a product: `ld` elements from row to row, `stride` from matrix to matrix.
struct Matrix {
  const void* memory;
  std::int64_t ld, stride;
  bool transposed = false;
};

/// cuBLAS bound to a context's stream, with a workspace of its own, so that products can be
/// captured into a graph. The library is opened when the first is made. Throws Failure.
class Cublas {
 public:
  explicit Cublas(Context& context);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  /// C = op(A) op(B) for each of `batch` triples of row-major matrices: C of m x n, f32, op(A) of
  /// m x k, op(B) of k x n. Elements of A and B and the arithmetic are as `precision` says; sums
  /// are f32.
  void multiply(Precision precision, std::int64_t batch, std::int64_t m, std::int64_t n,
                std::int64_t k, const Matrix& a, const Matrix& b, float* c, std::int64_t c_ld,
                std::int64_t c_stride);

 private:
  cublasHandle_t handle_ = nullptr;
  DeviceMemory workspace_;
};

}  // namespace forecost::cuda
