#include <algorithm>
#include <cstdio>
#include <vector>

#include "cuda/module/support.hpp"

namespace forecost::cuda {

namespace {

template <auto member>
struct LtRelease {
  template <class Handle>
  void operator()(Handle* handle) const noexcept {
    (cublas_lt().*member)(handle);
  }
};
using MatmulDesc = std::unique_ptr<cublasLtMatmulDescOpaque_t, LtRelease<&CublasLt::desc_destroy>>;
using MatrixLayout =
    std::unique_ptr<cublasLtMatrixLayoutOpaque_t, LtRelease<&CublasLt::layout_destroy>>;
using Preference =
    std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, LtRelease<&CublasLt::preference_destroy>>;

template <class Value>
void set(const MatmulDesc& desc, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(cublas_lt().desc_set(desc.get(), attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}
template <class Value>
void set(const MatrixLayout& layout, cublasLtMatrixLayoutAttribute_t attribute,
         const Value& value) {
  check(cublas_lt().layout_set(layout.get(), attribute, &value, sizeof value),
        "cublasLtMatrixLayoutSetAttribute");
}

cudaDataType_t data_type(Element element) {
  switch (element) {
    case Element::f32:
      return CUDA_R_32F;
    case Element::f16:
      return CUDA_R_16F;
    case Element::bf16:
      return CUDA_R_16BF;
    default:
      throw Failure(Code::unsupported, "gemm: elements are f32, f16 or bf16");
  }
}

/// Everything sums in f32; f32 operands are rounded to TF32 only where that is asked for.
cublasComputeType_t compute_type(const Gemm& gemm) {
  return gemm.element == Element::f32 && gemm.tf32 != 0 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                        : CUBLAS_COMPUTE_32F;
}

cublasLtEpilogue_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::relu:
      return CUBLASLT_EPILOGUE_RELU;
    case Epilogue::relu_bias:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
  }
  throw Failure(Code::failed, "gemm: unknown epilogue");
}

bool has_bias(const Gemm& gemm) {
  return gemm.epilogue == Epilogue::bias || gemm.epilogue == Epilogue::relu_bias;
}

/// The matrices lie in memory as the library's column-major ones do when transposed: it is asked
/// for C^T = op(B)^T op(A)^T, n x m, with B first. The bias of the epilogue runs along the rows of
/// its result, which are our columns.
struct Problem {
  explicit Problem(const Gemm& gemm);

  MatmulDesc desc;
  MatrixLayout first, second, result;  ///< B, A, C
};

MatrixLayout layout(const Gemm& gemm, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublas_lt().layout_create(&made, data_type(gemm.element), static_cast<std::uint64_t>(rows),
                                  static_cast<std::uint64_t>(columns), rows),
        "cublasLtMatrixLayoutCreate");
  MatrixLayout layout(made);
  if (gemm.batch > 1) {
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(gemm.batch));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * columns);
  }
  return layout;
}

Problem::Problem(const Gemm& gemm)
    : first(gemm.transpose_b != 0 ? layout(gemm, gemm.k, gemm.n) : layout(gemm, gemm.n, gemm.k)),
      second(gemm.transpose_a != 0 ? layout(gemm, gemm.m, gemm.k) : layout(gemm, gemm.k, gemm.m)),
      result(layout(gemm, gemm.n, gemm.m)) {
  cublasLtMatmulDesc_t made = nullptr;
  check(cublas_lt().desc_create(&made, compute_type(gemm), CUDA_R_32F), "cublasLtMatmulDescCreate");
  desc.reset(made);
  set(desc, CUBLASLT_MATMUL_DESC_TRANSA, gemm.transpose_b != 0 ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(desc, CUBLASLT_MATMUL_DESC_TRANSB, gemm.transpose_a != 0 ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(gemm.epilogue));
  if (has_bias(gemm)) {
    // There is none yet, but the heuristic wants to know that there will be, and how aligned.
    set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        reinterpret_cast<const void*>(std::uintptr_t{256}));
  }
}

std::vector<cublasLtMatmulHeuristicResult_t> candidates(Context& context, const Gemm& gemm,
                                                        const Problem& problem, int most) {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublas_lt().preference_create(&made), "cublasLtMatmulPreferenceCreate");
  const Preference preference(made);
  const auto limit = static_cast<std::uint64_t>(gemm.workspace_limit_bytes);
  check(cublas_lt().preference_set(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                   &limit, sizeof limit),
        "cublasLtMatmulPreferenceSetAttribute");

  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  check(cublas_lt().heuristic(context.cublas(), problem.desc.get(), problem.first.get(),
                              problem.second.get(), problem.result.get(), problem.result.get(),
                              preference.get(), most, found.data(), &count),
        "cublasLtMatmulAlgoGetHeuristic");
  found.resize(static_cast<std::size_t>(count));
  std::erase_if(found, [](const auto& each) { return each.state != CUBLAS_STATUS_SUCCESS; });
  if (found.empty()) {
    throw Failure(Code::unsupported,
                  "cublasLtMatmulAlgoGetHeuristic: no algorithm within a workspace of " +
                      std::to_string(gemm.workspace_limit_bytes) + " bytes");
  }
  return found;
}

template <class Value>
Value configured(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t what) {
  Value value{};
  check(cublas_lt().algo_get(&algorithm, what, &value, sizeof value, nullptr),
        "cublasLtMatmulAlgoConfigGetAttribute");
  return value;
}

/// What its products are made of: "fma", or the type that tensor cores multiply.
const char* math_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::uint64_t flags = 0;
  check(cublas_lt().algo_cap(&algorithm, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, &flags,
                             sizeof flags, nullptr),
        "cublasLtMatmulAlgoCapGetAttribute");
  if ((flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK) == 0) return "fma";
  if ((flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32) != 0) return "tf32";
  if ((flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F) != 0) return "f16";
  if ((flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF) != 0) return "bf16";
  return "tensor_op";
}

class GemmPlan : public Plan {
 public:
  GemmPlan(Context& context, const Gemm& gemm) : gemm_(gemm), problem_(gemm) {
    // Some more than a framework's autotuner tries, of a list that is in order of expectation.
    constexpr int tried = 16;
    switch (gemm.policy) {
      case Policy::heuristic:
        choose(candidates(context, gemm, problem_, 1).front());
        break;
      case Policy::fixed: {
        if (gemm.fixed_algorithm < 0) throw Failure(Code::failed, "gemm: a rank is 0 or more");
        const auto rank = static_cast<std::size_t>(gemm.fixed_algorithm);
        const auto found = candidates(context, gemm, problem_, gemm.fixed_algorithm + 1);
        if (rank >= found.size()) {
          throw Failure(Code::unsupported, "gemm: the library offers " +
                                               std::to_string(found.size()) +
                                               " algorithms, none of rank " + std::to_string(rank));
        }
        choose(found[rank]);
        break;
      }
      case Policy::find:
        find(context, candidates(context, gemm, problem_, tried));
        break;
    }
    std::snprintf(info.implementation, sizeof info.implementation,
                  "cublaslt:algo_%d_tile_%u_stages_%u_splitk_%d:%s",
                  configured<std::int32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_ID),
                  configured<std::uint32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_TILE_ID),
                  configured<std::uint32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                  configured<std::int32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                  math_of(algorithm_));
  }

  void enqueue(Context& context, void* const* tensors, void* workspace) override {
    check(launch(context, tensors, workspace), "cublasLtMatmul");
  }

 private:
  void choose(const cublasLtMatmulHeuristicResult_t& result) {
    algorithm_ = result.algo;
    info.workspace_bytes = static_cast<std::int64_t>(result.workspaceSize);
  }

  cublasStatus_t launch(Context& context, void* const* tensors, void* workspace) {
    if (has_bias(gemm_) && bias_ != tensors[3]) {
      bias_ = tensors[3];
      set(problem_.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_);
    }
    const auto alpha = static_cast<float>(gemm_.alpha);
    const float beta = 0;
    return cublas_lt().matmul(context.cublas(), problem_.desc.get(), &alpha, tensors[1],
                              problem_.first.get(), tensors[0], problem_.second.get(), &beta,
                              tensors[2], problem_.result.get(), tensors[2], problem_.result.get(),
                              &algorithm_, workspace,
                              static_cast<std::size_t>(info.workspace_bytes), context.stream);
  }

  /// The one with the best median, on random operands made for the trial.
  void find(Context& context, const std::vector<cublasLtMatmulHeuristicResult_t>& found) {
    const std::int64_t a = gemm_.batch * gemm_.m * gemm_.k, b = gemm_.batch * gemm_.k * gemm_.n,
                       c = gemm_.batch * gemm_.m * gemm_.n, bias = has_bias(gemm_) ? gemm_.n : 0;
    const std::int64_t size = bytes_of(gemm_.element);
    std::size_t workspace_bytes = 0;
    for (const auto& each : found) workspace_bytes = std::max(workspace_bytes, each.workspaceSize);
    const DeviceMemory memory[] = {device_memory(a * size), device_memory(b * size),
                                   device_memory(c * size), device_memory(bias * size)};
    const DeviceMemory workspace = device_memory(static_cast<std::int64_t>(workspace_bytes));
    void* const tensors[] = {memory[0].get(), memory[1].get(), memory[2].get(), memory[3].get()};
    fill_uniform(context, tensors[0], gemm_.element, a, -1, 1, 1);
    fill_uniform(context, tensors[1], gemm_.element, b, -1, 1, 2);
    if (bias != 0) fill_uniform(context, tensors[3], gemm_.element, bias, -1, 1, 3);

    // Round by round, so that a change of the clocks meets all of them; the first is a warm-up.
    constexpr int repeats = 5;
    const Event start = make_event(), stop = make_event();
    std::vector<std::vector<double>> seconds(found.size());
    std::vector<bool> runs(found.size(), true);
    for (int round = 0; round <= repeats; ++round) {
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (!runs[i]) continue;
        choose(found[i]);
        check(cudaEventRecord(start.get(), context.stream), "cudaEventRecord");
        const cublasStatus_t status = launch(context, tensors, workspace.get());
        runs[i] = status != CUBLAS_STATUS_NOT_SUPPORTED;
        if (!runs[i]) continue;
        check(status, "cublasLtMatmul");
        check(cudaEventRecord(stop.get(), context.stream), "cudaEventRecord");
        const double elapsed = seconds_between(start, stop);
        if (round > 0) seconds[i].push_back(elapsed);
      }
    }
    std::size_t best = found.size();
    double best_s = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!runs[i]) continue;
      std::nth_element(seconds[i].begin(), seconds[i].begin() + repeats / 2, seconds[i].end());
      const double median = seconds[i][repeats / 2];
      if (best == found.size() || median < best_s) {
        best = i;
        best_s = median;
      }
    }
    if (best == found.size()) {
      throw Failure(Code::unsupported, "cublasLtMatmul: none of the library's algorithms runs");
    }
    choose(found[best]);
    bias_ = nullptr;  // the trial's is gone
  }

  Gemm gemm_;
  Problem problem_;
  cublasLtMatmulAlgo_t algorithm_{};
  void* bias_ = nullptr;  ///< that the descriptor names
};

}  // namespace

std::unique_ptr<Plan> plan_gemm(Context& context, const Primitive& primitive) {
  return std::make_unique<GemmPlan>(context, primitive.gemm);
}

}  // namespace forecost::cuda
