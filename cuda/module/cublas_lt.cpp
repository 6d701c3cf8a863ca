#include <dlfcn.h>

#include "cuda/module/context.hpp"

namespace forecost::cuda {

namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    throw Failure(Code::failed, std::string(FORECOST_CUBLAS_LT) + " has no " + name);
  }
}

/// Never closed: handles and plans hold its functions to the end.
CublasLt open() {
  void* library = dlopen(FORECOST_CUBLAS_LT, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Failure(Code::failed, std::string("cuBLASLt cannot be opened: ") + dlerror());
  }
  CublasLt lt{};
  find(library, "cublasLtCreate", lt.create);
  find(library, "cublasLtDestroy", lt.destroy);
  find(library, "cublasLtGetVersion", lt.version);
  find(library, "cublasLtGetStatusString", lt.status_string);
  find(library, "cublasLtMatmul", lt.matmul);
  find(library, "cublasLtMatmulDescCreate", lt.desc_create);
  find(library, "cublasLtMatmulDescDestroy", lt.desc_destroy);
  find(library, "cublasLtMatmulDescSetAttribute", lt.desc_set);
  find(library, "cublasLtMatrixLayoutCreate", lt.layout_create);
  find(library, "cublasLtMatrixLayoutDestroy", lt.layout_destroy);
  find(library, "cublasLtMatrixLayoutSetAttribute", lt.layout_set);
  find(library, "cublasLtMatmulPreferenceCreate", lt.preference_create);
  find(library, "cublasLtMatmulPreferenceDestroy", lt.preference_destroy);
  find(library, "cublasLtMatmulPreferenceSetAttribute", lt.preference_set);
  find(library, "cublasLtMatmulAlgoGetHeuristic", lt.heuristic);
  find(library, "cublasLtMatmulAlgoConfigGetAttribute", lt.algo_get);
  find(library, "cublasLtMatmulAlgoCapGetAttribute", lt.algo_cap);
  return lt;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt library = open();
  return library;
}

std::int32_t loaded_cublas_lt_version() {
  void* library = dlopen(FORECOST_CUBLAS_LT, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return 0;
  dlclose(library);  // this count of it only
  return static_cast<std::int32_t>(cublas_lt().version());
}

}  // namespace forecost::cuda
