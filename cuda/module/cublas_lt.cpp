#include "cuda/module/late_library.hpp"

namespace forecost::cuda {

namespace {

CublasLt open() {
  const LateLibrary library(FORECOST_CUBLAS_LT);
  CublasLt lt{};
  library.find("cublasLtCreate", lt.create);
  library.find("cublasLtDestroy", lt.destroy);
  library.find("cublasLtGetVersion", lt.version);
  library.find("cublasLtGetStatusString", lt.status_string);
  library.find("cublasLtMatmul", lt.matmul);
  library.find("cublasLtMatmulDescCreate", lt.desc_create);
  library.find("cublasLtMatmulDescDestroy", lt.desc_destroy);
  library.find("cublasLtMatmulDescSetAttribute", lt.desc_set);
  library.find("cublasLtMatrixLayoutCreate", lt.layout_create);
  library.find("cublasLtMatrixLayoutDestroy", lt.layout_destroy);
  library.find("cublasLtMatrixLayoutSetAttribute", lt.layout_set);
  library.find("cublasLtMatmulPreferenceCreate", lt.preference_create);
  library.find("cublasLtMatmulPreferenceDestroy", lt.preference_destroy);
  library.find("cublasLtMatmulPreferenceSetAttribute", lt.preference_set);
  library.find("cublasLtMatmulAlgoGetHeuristic", lt.heuristic);
  library.find("cublasLtMatmulAlgoConfigGetAttribute", lt.algo_get);
  library.find("cublasLtMatmulAlgoCapGetAttribute", lt.algo_cap);
  return lt;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt library = open();
  return library;
}

}  // namespace forecost::cuda
