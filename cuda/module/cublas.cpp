#include "cuda/module/cublas.hpp"

#include "cuda/module/late_library.hpp"

namespace forecost::cuda {

namespace {

/// What the library's documentation recommends for Hopper, the most of all.
constexpr std::int64_t workspace_bytes = std::int64_t{32} << 20;

struct Library {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetWorkspace_v2) set_workspace;
  /// cublasGemmStridedBatchedEx, of which C++ sees two.
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                         const void*, const void*, cudaDataType, int, long long, const void*,
                         cudaDataType, int, long long, const void*, void*, cudaDataType, int,
                         long long, int, cublasComputeType_t, cublasGemmAlgo_t);
};

const Library& library() {
  static const Library opened = [] {
    const LateLibrary file(FORECOST_CUBLAS);
    Library found{};
    file.find("cublasCreate_v2", found.create);
    file.find("cublasDestroy_v2", found.destroy);
    file.find("cublasSetStream_v2", found.set_stream);
    file.find("cublasSetWorkspace_v2", found.set_workspace);
    file.find("cublasGemmStridedBatchedEx", found.gemm);
    return found;
  }();
  return opened;
}

}  // namespace

Cublas::Cublas(Context& context) : workspace_(device_memory(workspace_bytes)) {
  check(library().create(&handle_), "cublasCreate");
  try {
    check(library().set_stream(handle_, context.stream), "cublasSetStream");
    check(library().set_workspace(handle_, workspace_.get(), workspace_bytes),
          "cublasSetWorkspace");
  } catch (...) {
    library().destroy(handle_);
    throw;
  }
}

Cublas::~Cublas() { library().destroy(handle_); }

void Cublas::multiply(Precision precision, std::int64_t batch, std::int64_t m, std::int64_t n,
                      std::int64_t k, const Matrix& a, const Matrix& b, float* c, std::int64_t c_ld,
                      std::int64_t c_stride) {
  const float one = 1, zero = 0;
  const cudaDataType_t type = precision == Precision::bf16 ? CUDA_R_16BF : CUDA_R_32F;
  const cublasComputeType_t compute =
      precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  const auto op = [](const Matrix& matrix) {
    return matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  const auto narrow = [](std::int64_t value) { return static_cast<int>(value); };
  // A row-major matrix is the transposed one of a column-major library: C' = B' A'.
  check(library().gemm(handle_, op(b), op(a), narrow(n), narrow(m), narrow(k), &one, b.memory, type,
                       narrow(b.ld), b.stride, a.memory, type, narrow(a.ld), a.stride, &zero, c,
                       CUDA_R_32F, narrow(c_ld), c_stride, narrow(batch), compute,
                       CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
}

}  // namespace forecost::cuda
