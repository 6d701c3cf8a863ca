#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <string>

#include "tests/cuda/standin/numbers.hpp"
#include "tests/cuda/standin/work.hpp"

// What cuBLAS and cuBLASLt share: matrix products, their checks, time and results.

namespace forecost::standin {

Type type_of(cudaDataType_t type);

/// Of the runtime's error, which is remembered as the runtime does.
cublasStatus_t status_of(cudaError_t error);

/// Notes shapes, types or strides that do not agree.
cublasStatus_t inconsistent(const std::string& words);

struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, leading = 0, batch_stride = 0;
  std::int32_t batch = 1, order = CUBLASLT_ORDER_COL;
};

struct Product {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  std::int32_t bias_type = -1;
};

/// D of m x n, of matrices in column-major order.
struct Problem {
  Product product;
  Layout a, b, c, d;
  std::int64_t m = 0, n = 0, k = 0;
  bool tensor_cores() const {
    return a.type != CUDA_R_32F || product.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ||
           product.compute == CUBLAS_COMPUTE_32F_FAST_16F ||
           product.compute == CUBLAS_COMPUTE_32F_FAST_16BF;
  }
  bool has_bias() const { return (product.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
  bool has_relu() const { return (product.epilogue & CUBLASLT_EPILOGUE_RELU) != 0; }
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * d.batch;
  }
  std::uint64_t key() const {
    std::uint64_t key = 1469598103934665603;
    for (const std::int64_t value :
         {m, n, k, std::int64_t{a.type}, std::int64_t{product.compute},
          std::int64_t{product.transpose_a}, std::int64_t{product.transpose_b},
          std::int64_t{product.epilogue}, std::int64_t{d.batch}, a.leading, b.leading, c.leading,
          d.leading, a.batch_stride, b.batch_stride, c.batch_stride, d.batch_stride,
          std::int64_t{d.type}})
      key = (key ^ static_cast<std::uint64_t>(value)) * 1099511628211;
    return key;
  }
};

/// Sets m, n and k, and looks whether all agrees and is supported.
cublasStatus_t complete(Problem& problem);

/// D = alpha A B + beta C.
struct Factors {
  double alpha;
  const void *a, *b;
  double beta;
  const void* c;
  void* d;
};
Work product_work(const char* name, const Problem& problem, const Factors& factors);

}  // namespace forecost::standin
