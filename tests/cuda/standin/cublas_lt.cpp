#include <cublasLt.h>

#include <algorithm>
#include <cstring>

#include "tests/cuda/standin/memory.hpp"
#include "tests/cuda/standin/numbers.hpp"
#include "tests/cuda/standin/state.hpp"
#include "tests/cuda/standin/work.hpp"

// cuBLASLt's matrix products: libcublasLt.so.13 (or 12).

namespace forecost::standin {
namespace {

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

Type type_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F:
      return Type::f32;
    case CUDA_R_16F:
      return Type::f16;
    case CUDA_R_16BF:
      return Type::bf16;
    case CUDA_R_64F:
      return Type::f64;
    default:
      return Type::none;
  }
}

cublasStatus_t status_of(cudaError_t error) {
  if (error == cudaSuccess) return CUBLAS_STATUS_SUCCESS;
  answer(error);
  return CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t inconsistent(const std::string& words) {
  violation("descriptor", std::string(state().call) + ": " + words);
  return CUBLAS_STATUS_INVALID_VALUE;
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
          std::int64_t{product.epilogue}, std::int64_t{d.batch}, a.leading, b.leading, d.leading})
      key = (key ^ static_cast<std::uint64_t>(value)) * 1099511628211;
    return key;
  }
};

std::size_t bytes_of(const Layout& layout) {
  const std::int64_t one = (layout.columns - 1) * layout.leading + layout.rows;
  return static_cast<std::size_t>((layout.batch - 1) * layout.batch_stride + one) *
         size_of(type_of(layout.type));
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
  for (const Layout* layout : {la.get(), lb.get(), lc.get(), ld.get()}) {
    if (layout->order != CUBLASLT_ORDER_COL) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (type_of(layout->type) == Type::none) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (layout->rows < 1 || layout->columns < 1 || layout->leading < layout->rows)
      return inconsistent("a matrix without elements, or a leading dimension below its rows");
    if (layout->batch != ld->batch) return inconsistent("batches differ");
    if (layout->batch > 1 &&
        layout->batch_stride < (layout->columns - 1) * layout->leading + layout->rows &&
        layout == ld.get())
      return inconsistent("results of a batch overlap");
  }
  const bool ta = p->transpose_a != CUBLAS_OP_N, tb = p->transpose_b != CUBLAS_OP_N;
  problem.m = ld->rows;
  problem.n = ld->columns;
  problem.k = ta ? la->rows : la->columns;
  if ((ta ? la->columns : la->rows) != problem.m || (tb ? lb->rows : lb->columns) != problem.n ||
      (tb ? lb->columns : lb->rows) != problem.k || lc->rows != ld->rows ||
      lc->columns != ld->columns)
    return inconsistent("the shapes of A, B, C and D do not agree");
  if (la->type != lb->type || lc->type != ld->type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (p->scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (la->type != CUDA_R_32F && p->compute != CUBLAS_COMPUTE_32F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  switch (p->epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
      break;
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return unsupported("gemm") ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

/// Dense, column-major, with the transposition done: rows x columns of each matrix of the batch.
std::vector<float> load_matrices(const Layout& layout, bool transposed, const void* memory) {
  const std::int64_t rows = transposed ? layout.columns : layout.rows,
                     columns = transposed ? layout.rows : layout.columns;
  std::vector<float> values(static_cast<std::size_t>(rows * columns * layout.batch));
  std::size_t at = 0;
  for (std::int64_t batch = 0; batch < layout.batch; ++batch)
    for (std::int64_t j = 0; j < columns; ++j)
      for (std::int64_t i = 0; i < rows; ++i)
        values[at++] = load(type_of(layout.type), memory,
                            static_cast<std::size_t>(
                                batch * layout.batch_stride +
                                (transposed ? i * layout.leading + j : j * layout.leading + i)));
  return values;
}

void compute(const Problem& p, double alpha, const void* a, const void* b, double beta,
             const void* c, void* d) {
  // A with k running fastest, B too.
  std::vector<float> left = load_matrices(p.a, p.product.transpose_a == CUBLAS_OP_N, a);
  std::vector<float> right = load_matrices(p.b, p.product.transpose_b != CUBLAS_OP_N, b);
  if (p.a.type == CUDA_R_32F && p.tensor_cores()) {
    round_to_tf32(left);
    round_to_tf32(right);
  }
  const Type type = type_of(p.d.type);
  const Type bias_type =
      p.product.bias_type < 0 ? type : type_of(static_cast<cudaDataType_t>(p.product.bias_type));
  for (std::int64_t batch = 0; batch < p.d.batch; ++batch)
    for (std::int64_t j = 0; j < p.n; ++j)
      for (std::int64_t i = 0; i < p.m; ++i) {
        const float* x = &left[static_cast<std::size_t>((batch * p.m + i) * p.k)];
        const float* y = &right[static_cast<std::size_t>((batch * p.n + j) * p.k)];
        // Four sums, so that the compiler can keep them apart.
        double sums[4] = {};
        std::int64_t k = 0;
        for (; k + 4 <= p.k; k += 4)
          for (int l = 0; l < 4; ++l) sums[l] += static_cast<double>(x[k + l]) * y[k + l];
        for (; k < p.k; ++k) sums[0] += static_cast<double>(x[k]) * y[k];
        double value = alpha * (sums[0] + sums[1] + (sums[2] + sums[3]));
        if (beta != 0)
          value +=
              beta * load(type, c,
                          static_cast<std::size_t>(batch * p.c.batch_stride + j * p.c.leading + i));
        if (p.has_bias()) value += load(bias_type, p.product.bias, static_cast<std::size_t>(i));
        if (p.has_relu()) value = std::max(value, 0.0);
        store(type, d, static_cast<std::size_t>(batch * p.d.batch_stride + j * p.d.leading + i),
              value);
      }
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
  Work work;
  work.name = "cublasLtMatmul";
  work.operands = {
      reads(a, bytes_of(problem.a), "A"),
      reads(b, bytes_of(problem.b), "B"),
      {d, bytes_of(problem.d), beta != 0 && c == d ? Access::update : Access::write, "D"}};
  if (beta != 0 && c != d) work.operands.push_back(reads(c, bytes_of(problem.c), "C"));
  if (problem.has_bias())
    work.operands.push_back(
        reads(problem.product.bias,
              static_cast<std::size_t>(problem.m) *
                  size_of(problem.product.bias_type < 0
                              ? type_of(problem.d.type)
                              : type_of(static_cast<cudaDataType_t>(problem.product.bias_type))),
              "bias"));
  if (workspace_bytes > 0) work.operands.push_back(scratch(workspace, workspace_bytes));
  work.flops = problem.flops() * algorithm->work;
  work.rate = !problem.tensor_cores()        ? Rate::f32
              : problem.a.type == CUDA_R_32F ? Rate::tf32
                                             : Rate::f16;
  work.parameters =
      std::to_string(problem.key()) + ";" + std::to_string(alpha) + ";" + std::to_string(beta);
  work.memorable = true;
  work.compute = [=] { compute(problem, alpha, a, b, beta, c, d); };
  return status_of(submit(stream, std::move(work)));
}

}  // extern "C"
