#include <cublasLt.h>

#include <algorithm>
#include <cstring>

#include "tests/cuda/standin/gemm.hpp"
#include "tests/cuda/standin/numbers.hpp"
#include "tests/cuda/standin/state.hpp"
#include "tests/cuda/standin/work.hpp"

// cuBLASLt's matrix products: libcublasLt.so.13 (or 12).

namespace forecost::standin {
namespace {

struct Preference {
  std::uint64_t most_workspace_bytes = 0;
};

struct Tables {
  Handles<cublasLtHandle_t, int> handles{"cuBLASLt handle"};
  Handles<cublasLtMatmulDesc_t, Product> products{"matmul descriptor"};
  Handles<cublasLtMatrixLayout_t, Layout> layouts{"matrix layout"};
  Handles<cublasLtMatmulPreference_t, Preference> preferences{"matmul preference"};
};
Tables& tables() {
  static auto* all = new Tables;
  return *all;
}

/// In the order of the heuristic.
struct Algorithm {
  std::int32_t id;
  std::uint32_t tile, stages;
  std::int32_t split_k;
  std::uint64_t workspace_bytes;
  double work;  ///< in parts of the best one's
};
constexpr Algorithm algorithms[] = {{21, 20, 15, 1, 0, 1.05},
                                    {21, 18, 15, 4, 4 << 20, 0.9},
                                    {31, 20, 8, 1, 32 << 10, 1.0},
                                    {6, 15, 4, 2, 1 << 20, 1.3}};
constexpr std::uint64_t algorithm_mark = 0x5354414e44494e00;

const Algorithm* algorithm_of(const cublasLtMatmulAlgo_t& opaque) {
  if ((opaque.data[0] & ~std::uint64_t{0xff}) != algorithm_mark) return nullptr;
  const std::size_t index = opaque.data[0] & 0xff;
  return index < std::size(algorithms) ? &algorithms[index] : nullptr;
}

cublasStatus_t make_problem(cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                            cublasLtMatrixLayout_t d, Problem& problem) {
  const auto p = tables().products.find(product);
  const auto la = tables().layouts.find(a), lb = tables().layouts.find(b),
             lc = tables().layouts.find(c), ld = tables().layouts.find(d);
  if (!p || !la || !lb || !lc || !ld) return CUBLAS_STATUS_INVALID_VALUE;
  problem.product = *p;
  problem.a = *la;
  problem.b = *lb;
  problem.c = *lc;
  problem.d = *ld;
  if (const cublasStatus_t status = complete(problem); status != CUBLAS_STATUS_SUCCESS)
    return status;
  switch (p->epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
      break;
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

template <class Value>
cublasStatus_t set_value(Value& value, const void* from, std::size_t bytes) {
  if (bytes != sizeof value) return inconsistent("an attribute of another size");
  std::memcpy(&value, from, sizeof value);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Value>
cublasStatus_t get_value(const Value& value, void* to, std::size_t bytes, std::size_t* written) {
  if (written != nullptr) *written = sizeof value;
  if (bytes == 0) return CUBLAS_STATUS_SUCCESS;
  if (bytes != sizeof value) return inconsistent("an attribute of another size");
  std::memcpy(to, &value, sizeof value);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace forecost::standin

using namespace forecost::standin;

extern "C" {

std::size_t cublasLtGetVersion() {
  return CUBLAS_VER_MAJOR * 10000 + CUBLAS_VER_MINOR * 100 + CUBLAS_VER_PATCH;
}
std::size_t cublasLtGetCudartVersion() { return CUDART_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "CUBLAS_STATUS_OTHER";
  }
}
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  const Call call("cublasLtCreate", Call::prepares);
  if (state().config.driver_version == 0 || state().visible.empty())
    return CUBLAS_STATUS_NOT_INITIALIZED;
  if (state().sticky != cudaSuccess) return status_of(state().sticky);
  *handle = tables().handles.make();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  const Call call("cublasLtDestroy", Call::prepares);
  return tables().handles.release(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* descriptor,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  const Call call("cublasLtMatmulDescCreate", Call::prepares);
  Product product;
  product.compute = compute;
  product.scale = scale;
  *descriptor = tables().products.make(product);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  const Call call("cublasLtMatmulDescDestroy", Call::prepares);
  return tables().products.release(descriptor) ? CUBLAS_STATUS_SUCCESS
                                               : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  // Frameworks set addresses at every call: it is no preparation.
  const Call call("cublasLtMatmulDescSetAttribute");
  const auto product = tables().products.find(descriptor);
  if (!product) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set_value(product->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set_value(product->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set_value(product->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set_value(product->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set_value(product->bias_type, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  const Call call("cublasLtMatrixLayoutCreate", Call::prepares);
  Layout made;
  made.type = type;
  made.rows = static_cast<std::int64_t>(rows);
  made.columns = static_cast<std::int64_t>(columns);
  made.leading = leading;
  *layout = tables().layouts.make(made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  const Call call("cublasLtMatrixLayoutDestroy", Call::prepares);
  return tables().layouts.release(layout) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  const Call call("cublasLtMatrixLayoutSetAttribute", Call::prepares);
  const auto layout = tables().layouts.find(handle);
  if (!layout) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set_value(layout->batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return set_value(layout->batch_stride, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return set_value(layout->order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return set_value(layout->leading, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  const Call call("cublasLtMatmulPreferenceCreate", Call::prepares);
  *preference = tables().preferences.make();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  const Call call("cublasLtMatmulPreferenceDestroy", Call::prepares);
  return tables().preferences.release(preference) ? CUBLAS_STATUS_SUCCESS
                                                  : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  const Call call("cublasLtMatmulPreferenceSetAttribute", Call::prepares);
  const auto preference = tables().preferences.find(handle);
  if (!preference) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return set_value(preference->most_workspace_bytes, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference_handle,
                                              int room, cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  const Call call("cublasLtMatmulAlgoGetHeuristic", Call::prepares);
  *count = 0;
  const auto preference = tables().preferences.find(preference_handle);
  if (!tables().handles.find(handle) || !preference || room < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (state().sticky != cudaSuccess) return status_of(state().sticky);
  Problem problem;
  if (const cublasStatus_t status = make_problem(product, a, b, c, d, problem);
      status != CUBLAS_STATUS_SUCCESS)
    return status;
  for (std::size_t i = 0; i < std::size(algorithms) && *count < room; ++i) {
    if (algorithms[i].workspace_bytes > preference->most_workspace_bytes) continue;
    cublasLtMatmulHeuristicResult_t& result = results[(*count)++];
    result = {};
    result.algo.data[0] = algorithm_mark | i;
    result.algo.data[1] = problem.key();
    result.algo.data[2] = problem.tensor_cores() ? 1 : 0;
    result.algo.data[3] = static_cast<std::uint64_t>(problem.a.type);
    result.workspaceSize = algorithms[i].workspace_bytes;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return *count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* opaque,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, std::size_t bytes,
                                                    std::size_t* written) {
  const Call call("cublasLtMatmulAlgoConfigGetAttribute");
  const Algorithm* algorithm = algorithm_of(*opaque);
  if (algorithm == nullptr) return inconsistent("an algorithm that the heuristic did not give");
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID:
      return get_value(algorithm->id, value, bytes, written);
    case CUBLASLT_ALGO_CONFIG_TILE_ID:
      return get_value(algorithm->tile, value, bytes, written);
    case CUBLASLT_ALGO_CONFIG_STAGES_ID:
      return get_value(algorithm->stages, value, bytes, written);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
      return get_value(algorithm->split_k, value, bytes, written);
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID:
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID:
      return get_value(std::uint16_t{0}, value, bytes, written);
    default:
      return get_value(std::uint32_t{0}, value, bytes, written);
  }
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* opaque,
                                                 cublasLtMatmulAlgoCapAttributes_t attribute,
                                                 void* value, std::size_t bytes,
                                                 std::size_t* written) {
  const Call call("cublasLtMatmulAlgoCapGetAttribute");
  if (algorithm_of(*opaque) == nullptr)
    return inconsistent("an algorithm that the heuristic did not give");
  if (attribute != CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS) return CUBLAS_STATUS_NOT_SUPPORTED;
  std::uint64_t flags = CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F;
  flags |=
      opaque->data[2] != 0 ? CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA : CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA;
  const Type type = type_of(static_cast<cudaDataType_t>(opaque->data[3]));
  flags |= type == Type::f16      ? CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F
           : type == Type::bf16   ? CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF
           : opaque->data[2] != 0 ? CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32
                                  : CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_32F;
  return get_value(flags, value, bytes, written);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                              const void* alpha_at, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta_at,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* opaque,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  const Call call("cublasLtMatmul");
  if (!tables().handles.find(handle)) return CUBLAS_STATUS_INVALID_VALUE;
  if (state().sticky != cudaSuccess) return status_of(state().sticky);
  Problem problem;
  if (const cublasStatus_t status =
          make_problem(product, a_layout, b_layout, c_layout, d_layout, problem);
      status != CUBLAS_STATUS_SUCCESS)
    return status;
  const Algorithm* algorithm = opaque == nullptr ? &algorithms[0] : algorithm_of(*opaque);
  if (algorithm == nullptr) return inconsistent("an algorithm that the heuristic did not give");
  if (opaque != nullptr && opaque->data[1] != problem.key())
    violation("algorithm", "cublasLtMatmul: the algorithm was given for another problem");
  if (workspace_bytes < algorithm->workspace_bytes) {
    violation("workspace", "cublasLtMatmul is given " + std::to_string(workspace_bytes) +
                               " bytes, its algorithm was said to need " +
                               std::to_string(algorithm->workspace_bytes));
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const double alpha = *static_cast<const float*>(alpha_at),
               beta = *static_cast<const float*>(beta_at);
  Work work = product_work("cublasLtMatmul", problem, {alpha, a, b, beta, c, d});
  if (workspace_bytes > 0) work.operands.push_back(scratch(workspace, workspace_bytes));
  work.flops *= algorithm->work;
  return status_of(submit(stream, std::move(work)));
}

}  // extern "C"
