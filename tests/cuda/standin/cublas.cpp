#include <cublas_v2.h>

#include <cstdint>

#include "tests/cuda/standin/gemm.hpp"
#include "tests/cuda/standin/state.hpp"

// cuBLAS's matrix products: libcublas.so.13 (or 12).

namespace forecost::standin {
namespace {

struct Handle {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  /// That it was given, on this stream; without one it allocates.
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

Handles<cublasHandle_t, Handle>& handles() {
  static auto* all = new Handles<cublasHandle_t, Handle>("cuBLAS handle");
  return *all;
}

/// The mode of the handle is for f32 alone.
cublasComputeType_t compute_of(const Handle& handle, const Problem& problem) {
  const cublasComputeType_t asked = problem.product.compute;
  return problem.a.type == CUDA_R_32F && asked == CUBLAS_COMPUTE_32F &&
                 (handle.math & 0xf) == CUBLAS_TF32_TENSOR_OP_MATH
             ? CUBLAS_COMPUTE_32F_FAST_TF32
             : asked;
}

Layout layout(cudaDataType_t type, cublasOperation_t operation, int rows, int columns, int leading,
              long long stride, int batch) {
  const bool transposed = operation != CUBLAS_OP_N;
  Layout made;
  made.type = type;
  made.rows = transposed ? columns : rows;
  made.columns = transposed ? rows : columns;
  made.leading = leading;
  made.batch_stride = stride;
  made.batch = batch;
  return made;
}

cublasStatus_t multiply(const char* name, cublasHandle_t handle, Problem problem,
                        const void* alpha_at, const void* a, const void* b, const void* beta_at,
                        void* c) {
  const auto found = handles().find(handle);
  if (!found) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (state().sticky != cudaSuccess) return status_of(state().sticky);
  problem.product.compute = compute_of(*found, problem);
  if (const cublasStatus_t status = complete(problem); status != CUBLAS_STATUS_SUCCESS)
    return status;
  const double alpha = *static_cast<const float*>(alpha_at),
               beta = *static_cast<const float*>(beta_at);
  Work work = product_work(name, problem, {alpha, a, b, beta, c, c});
  if (found->workspace_bytes > 0) {
    work.operands.push_back(scratch(found->workspace, found->workspace_bytes));
  } else {
    const Stream* stream = stream_of(found->stream);
    if (stream == nullptr) return CUBLAS_STATUS_EXECUTION_FAILED;
    if (stream->capturing)
      violation("workspace", std::string(name) +
                                 " allocates inside a capture: it was given no workspace since "
                                 "its stream was set");
    else
      prepares("an allocation of cuBLAS, which was given no workspace since its stream was set,");
  }
  return status_of(submit(found->stream, std::move(work)));
}

}  // namespace
}  // namespace forecost::standin

using namespace forecost::standin;

extern "C" {

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "CUBLAS_STATUS_OTHER";
  }
}
const char* cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  const Call call("cublasCreate_v2", Call::prepares);
  if (state().config.driver_version == 0 || state().visible.empty())
    return CUBLAS_STATUS_NOT_INITIALIZED;
  if (state().sticky != cudaSuccess) return status_of(state().sticky);
  *handle = handles().make();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  const Call call("cublasDestroy_v2", Call::prepares);
  return handles().release(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int* version) {
  const Call call("cublasGetVersion_v2");
  if (!handles().find(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  const Call call("cublasSetStream_v2");
  const auto found = handles().find(handle);
  if (!found || stream_of(stream) == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  found->stream = stream;
  // "unconditionally resets the cuBLAS library workspace back to the default workspace pool"
  found->workspace = nullptr;
  found->workspace_bytes = 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  const Call call("cublasGetStream_v2");
  const auto found = handles().find(handle);
  if (!found) return CUBLAS_STATUS_NOT_INITIALIZED;
  *stream = found->stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  const Call call("cublasSetWorkspace_v2");
  const auto found = handles().find(handle);
  if (!found) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  found->workspace = workspace;
  found->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  const Call call("cublasSetMathMode");
  const auto found = handles().find(handle);
  if (!found) return CUBLAS_STATUS_NOT_INITIALIZED;
  found->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  const Call call("cublasGetMathMode");
  const auto found = handles().find(handle);
  if (!found) return CUBLAS_STATUS_NOT_INITIALIZED;
  *mode = found->math;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a,
                                          cublasOperation_t op_b, int m, int n, int k,
                                          const void* alpha, const void* a, cudaDataType a_type,
                                          int lda, long long a_stride, const void* b,
                                          cudaDataType b_type, int ldb, long long b_stride,
                                          const void* beta, void* c, cudaDataType c_type, int ldc,
                                          long long c_stride, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t) {
  const Call call("cublasGemmStridedBatchedEx");
  Problem problem;
  problem.product.compute = compute;
  problem.product.transpose_a = op_a;
  problem.product.transpose_b = op_b;
  problem.a = layout(a_type, op_a, m, k, lda, a_stride, batch);
  problem.b = layout(b_type, op_b, k, n, ldb, b_stride, batch);
  problem.c = problem.d = layout(c_type, CUBLAS_OP_N, m, n, ldc, c_stride, batch);
  return multiply("cublasGemmStridedBatchedEx", handle, problem, alpha, a, b, beta, c);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void* alpha, const void* a,
                            cudaDataType a_type, int lda, const void* b, cudaDataType b_type,
                            int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
  const Call call("cublasGemmEx");
  Problem problem;
  problem.product.compute = compute;
  problem.product.transpose_a = op_a;
  problem.product.transpose_b = op_b;
  problem.a = layout(a_type, op_a, m, k, lda, 0, 1);
  problem.b = layout(b_type, op_b, k, n, ldb, 0, 1);
  problem.c = problem.d = layout(c_type, CUBLAS_OP_N, m, n, ldc, 0, 1);
  return multiply("cublasGemmEx", handle, problem, alpha, a, b, beta, c);
}

}  // extern "C"
