#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/module/cudnn_descriptors.hpp"

namespace forecost::cuda {
namespace {

struct Descriptors {
  TensorDescriptor x, y;
  FilterDescriptor w;
  ConvolutionDescriptor convolution;
};

// What the three passes call by other names and in another order.

struct Forward {
  using Algorithm = cudnnConvolutionFwdAlgo_t;
  using Result = cudnnConvolutionFwdAlgoPerf_t;
  static constexpr std::array<std::string_view, CUDNN_CONVOLUTION_FWD_ALGO_COUNT> names{
      "fwd_implicit_gemm", "fwd_implicit_precomp_gemm",
      "fwd_gemm",          "fwd_direct",
      "fwd_fft",           "fwd_fft_tiling",
      "fwd_winograd",      "fwd_winograd_nonfused"};

  static cudnnStatus_t count(cudnnHandle_t handle, int* count) {
    return cudnnGetConvolutionForwardAlgorithmMaxCount(handle, count);
  }
  static cudnnStatus_t guess(cudnnHandle_t handle, const Descriptors& d, int room, int* count,
                             Result* results) {
    return cudnnGetConvolutionForwardAlgorithm_v7(handle, d.x, d.w, d.convolution, d.y, room, count,
                                                  results);
  }
  static cudnnStatus_t find(cudnnHandle_t handle, const Descriptors& d, int room, int* count,
                            Result* results) {
    return cudnnFindConvolutionForwardAlgorithm(handle, d.x, d.w, d.convolution, d.y, room, count,
                                                results);
  }
  static cudnnStatus_t workspace(cudnnHandle_t handle, const Descriptors& d, Algorithm algorithm,
                                 std::size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(handle, d.x, d.w, d.convolution, d.y, algorithm,
                                                   bytes);
  }
  /// {x, w, y}
  static cudnnStatus_t run(cudnnHandle_t handle, const Descriptors& d, void* const* tensors,
                           Algorithm algorithm, void* workspace, std::size_t bytes) {
    return cudnnConvolutionForward(handle, &one, d.x, tensors[0], d.w, tensors[1], d.convolution,
                                   algorithm, workspace, bytes, &zero, d.y, tensors[2]);
  }
};

struct BackwardData {
  using Algorithm = cudnnConvolutionBwdDataAlgo_t;
  using Result = cudnnConvolutionBwdDataAlgoPerf_t;
  static constexpr std::array<std::string_view, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT> names{
      "bwd_data_algo_0",     "bwd_data_algo_1",   "bwd_data_fft",
      "bwd_data_fft_tiling", "bwd_data_winograd", "bwd_data_winograd_nonfused"};

  static cudnnStatus_t count(cudnnHandle_t handle, int* count) {
    return cudnnGetConvolutionBackwardDataAlgorithmMaxCount(handle, count);
  }
  static cudnnStatus_t guess(cudnnHandle_t handle, const Descriptors& d, int room, int* count,
                             Result* results) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, d.w, d.y, d.convolution, d.x, room,
                                                       count, results);
  }
  static cudnnStatus_t find(cudnnHandle_t handle, const Descriptors& d, int room, int* count,
                            Result* results) {
    return cudnnFindConvolutionBackwardDataAlgorithm(handle, d.w, d.y, d.convolution, d.x, room,
                                                     count, results);
  }
  static cudnnStatus_t workspace(cudnnHandle_t handle, const Descriptors& d, Algorithm algorithm,
                                 std::size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, d.w, d.y, d.convolution, d.x,
                                                        algorithm, bytes);
  }
  /// {w, dy, dx}
  static cudnnStatus_t run(cudnnHandle_t handle, const Descriptors& d, void* const* tensors,
                           Algorithm algorithm, void* workspace, std::size_t bytes) {
    return cudnnConvolutionBackwardData(handle, &one, d.w, tensors[0], d.y, tensors[1],
                                        d.convolution, algorithm, workspace, bytes, &zero, d.x,
                                        tensors[2]);
  }
};

struct BackwardWeights {
  using Algorithm = cudnnConvolutionBwdFilterAlgo_t;
  using Result = cudnnConvolutionBwdFilterAlgoPerf_t;
  static constexpr std::array<std::string_view, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT> names{
      "bwd_filter_algo_0",    "bwd_filter_algo_1",   "bwd_filter_fft",
      "bwd_filter_algo_3",    "bwd_filter_winograd", "bwd_filter_winograd_nonfused",
      "bwd_filter_fft_tiling"};

  static cudnnStatus_t count(cudnnHandle_t handle, int* count) {
    return cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(handle, count);
  }
  static cudnnStatus_t guess(cudnnHandle_t handle, const Descriptors& d, int room, int* count,
                             Result* results) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, d.x, d.y, d.convolution, d.w, room,
                                                         count, results);
  }
  static cudnnStatus_t find(cudnnHandle_t handle, const Descriptors& d, int room, int* count,
                            Result* results) {
    return cudnnFindConvolutionBackwardFilterAlgorithm(handle, d.x, d.y, d.convolution, d.w, room,
                                                       count, results);
  }
  static cudnnStatus_t workspace(cudnnHandle_t handle, const Descriptors& d, Algorithm algorithm,
                                 std::size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, d.x, d.y, d.convolution, d.w,
                                                          algorithm, bytes);
  }
  /// {x, dy, dw}
  static cudnnStatus_t run(cudnnHandle_t handle, const Descriptors& d, void* const* tensors,
                           Algorithm algorithm, void* workspace, std::size_t bytes) {
    return cudnnConvolutionBackwardFilter(handle, &one, d.x, tensors[0], d.y, tensors[1],
                                          d.convolution, algorithm, workspace, bytes, &zero, d.w,
                                          tensors[2]);
  }
};

void describe(const Descriptors& d, const Convolution& p) {
  const Window& w = p.window;
  const cudnnDataType_t type = to_cudnn(p.element);
  describe_image(d.x, p.element, p.layout, p.in);
  describe_image(d.y, p.element, p.layout, {p.in.n, p.out_channels, p.out_h, p.out_w});
  check(
      cudnnSetFilter4dDescriptor(d.w, type, to_cudnn(p.layout), to_int(p.out_channels),
                                 to_int(p.in.c / p.groups), to_int(w.kernel_h), to_int(w.kernel_w)),
      "describing weights to cuDNN");
  check(cudnnSetConvolution2dDescriptor(
            d.convolution, to_int(w.pad_h), to_int(w.pad_w), to_int(w.stride_h), to_int(w.stride_w),
            to_int(w.dilation_h), to_int(w.dilation_w), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        "describing a convolution to cuDNN");
  check(cudnnSetConvolutionGroupCount(d.convolution, to_int(p.groups)),
        "setting the groups of a convolution");
  int n = 0, c = 0, out_h = 0, out_w = 0;
  check(cudnnGetConvolution2dForwardOutputDim(d.convolution, d.x, d.w, &n, &c, &out_h, &out_w),
        "asking cuDNN for the output of a convolution");
  if (n != p.in.n || c != p.out_channels || out_h != p.out_h || out_w != p.out_w) {
    throw Failure(Code::failed, "a convolution to " + std::to_string(p.out_h) + " x " +
                                    std::to_string(p.out_w) + " is one to " +
                                    std::to_string(out_h) + " x " + std::to_string(out_w) +
                                    " for cuDNN");
  }
}

template <class Pass>
class ConvolutionPlan final : public CudnnPlan {
 public:
  ConvolutionPlan(Context& context, const Convolution& p) : CudnnPlan(context) {
    describe(descriptors_, p);
    choose(p, candidates(context, p));
  }

  void enqueue(Context& /*context*/, void* const* tensors, void* workspace) override {
    check(Pass::run(handle_, descriptors_, tensors, algorithm_,
                    info.workspace_bytes > 0 ? workspace : nullptr,
                    static_cast<std::size_t>(info.workspace_bytes)),
          info.implementation);
  }

 private:
  using Algorithm = typename Pass::Algorithm;
  using Result = typename Pass::Result;
  struct Candidate {
    Algorithm algorithm;
    cudnnMathType_t math;
    cudnnDeterminism_t determinism;
  };

  /// Best first, of which the first that fits will be taken.
  std::vector<Candidate> candidates(Context& context, const Convolution& p) {
    const cudnnMathType_t math = math_of(context, p.element, p.tf32 != 0);
    check(cudnnSetConvolutionMathType(descriptors_.convolution, math),
          "setting the math type of a convolution");
    switch (p.policy) {
      case Policy::heuristic:
        return guessed(math);
      case Policy::find:
        return found(math);
      case Policy::fixed:
        break;
    }
    if (p.fixed_algorithm < 0 || p.fixed_algorithm >= static_cast<int>(Pass::names.size())) {
      throw Failure(Code::unsupported, "cuDNN has no algorithm " +
                                           std::to_string(p.fixed_algorithm) +
                                           " for this pass of a convolution, but 0 to " +
                                           std::to_string(Pass::names.size() - 1));
    }
    const auto algorithm = static_cast<Algorithm>(p.fixed_algorithm);
    for (const Candidate& known : guessed(math)) {
      if (known.algorithm == algorithm) return {{algorithm, math, known.determinism}};
    }
    return {{algorithm, math, CUDNN_NON_DETERMINISTIC}};
  }

  std::vector<Result> results(cudnnStatus_t (*ask)(cudnnHandle_t, const Descriptors&, int, int*,
                                                   Result*)) {
    int room = 0, count = 0;
    check(Pass::count(handle_, &room), "counting cuDNN's algorithms");
    room *= 2;  // a trial is of two math types
    std::vector<Result> results(static_cast<std::size_t>(room));
    check(ask(handle_, descriptors_, room, &count, results.data()),
          "asking cuDNN for an algorithm of a convolution");
    results.resize(static_cast<std::size_t>(count));
    return results;
  }

  /// What the library reports, unless that would let f32 become TF32, which nobody asked for.
  static cudnnMathType_t applied(cudnnMathType_t asked, cudnnMathType_t reported) {
    return asked == CUDNN_FMA_MATH ? asked : reported;
  }

  std::vector<Candidate> guessed(cudnnMathType_t math) {
    std::vector<Candidate> candidates;
    for (const Result& result : results(Pass::guess)) {
      if (result.status != CUDNN_STATUS_SUCCESS) continue;
      candidates.push_back({result.algo, applied(math, result.mathType), result.determinism});
    }
    return candidates;
  }

  /// By the median of three trials each, which the library makes in memory of its own.
  std::vector<Candidate> found(cudnnMathType_t math) {
    struct Trials {
      cudnnDeterminism_t determinism;
      std::vector<float> times;
    };
    std::map<std::pair<Algorithm, cudnnMathType_t>, Trials> trials;
    cudnnStatus_t refused = CUDNN_STATUS_SUCCESS;
    for (int round = 0; round < 3; ++round) {
      for (const Result& result : results(Pass::find)) {
        if (result.status == CUDNN_STATUS_SUCCESS) {
          Trials& same = trials[{result.algo, result.mathType}];
          same.determinism = result.determinism;
          same.times.push_back(result.time);
        } else {
          refused = result.status;
        }
      }
    }
    // It also tries the default math type, which of f32 is TF32.
    if (math == CUDNN_FMA_MATH && std::ranges::any_of(trials, [](const auto& t) {
          return t.first.second == CUDNN_FMA_MATH;
        })) {
      std::erase_if(trials, [](const auto& t) { return t.first.second != CUDNN_FMA_MATH; });
    }
    if (trials.empty()) check(refused, "finding an algorithm of a convolution");
    std::vector<std::pair<float, Candidate>> by_time;
    for (auto& [key, same] : trials) {
      auto& times = same.times;
      std::ranges::sort(times);
      by_time.push_back(
          {times[times.size() / 2], {key.first, applied(math, key.second), same.determinism}});
    }
    std::ranges::stable_sort(by_time, {}, [](const auto& each) { return each.first; });
    std::vector<Candidate> candidates;
    for (const auto& [time, candidate] : by_time) candidates.push_back(candidate);
    return candidates;
  }

  /// Applies algorithm, math type and workspace together, and records them as the library has them.
  void choose(const Convolution& p, const std::vector<Candidate>& candidates) {
    std::string reason = "it knows none";
    for (const Candidate& candidate : candidates) {
      check(cudnnSetConvolutionMathType(descriptors_.convolution, candidate.math),
            "setting the math type of a convolution");
      std::size_t bytes = 0;
      const cudnnStatus_t status =
          Pass::workspace(handle_, descriptors_, candidate.algorithm, &bytes);
      const std::string name{Pass::names.at(static_cast<std::size_t>(candidate.algorithm))};
      if (is_refusal(status)) {
        reason = name + ": " + words_of(status);
        continue;
      }
      check(status, name.c_str());
      if (bytes > static_cast<std::size_t>(p.workspace_limit_bytes)) {
        reason = name + " needs a workspace of " + std::to_string(bytes) + " bytes, granted are " +
                 std::to_string(p.workspace_limit_bytes);
        continue;
      }
      cudnnMathType_t math{};
      check(cudnnGetConvolutionMathType(descriptors_.convolution, &math),
            "reading the math type of a convolution");
      algorithm_ = candidate.algorithm;
      info.workspace_bytes = static_cast<std::int64_t>(bytes);
      info.nondeterministic = candidate.determinism == CUDNN_DETERMINISTIC ? 0 : 1;
      set_implementation(info, "cudnn:" + name + ":" + name_of(math) + ":" + name_of(p.layout));
      return;
    }
    throw Failure(Code::unsupported, "cuDNN has no algorithm for this convolution: " + reason);
  }

  Descriptors descriptors_;
  Algorithm algorithm_{};
};

}  // namespace

std::unique_ptr<Plan> plan_convolution(Context& context, const Primitive& primitive) {
  const Convolution& p = primitive.convolution;
  switch (p.direction) {
    case Direction::forward:
      return std::make_unique<ConvolutionPlan<Forward>>(context, p);
    case Direction::backward_data:
      return std::make_unique<ConvolutionPlan<BackwardData>>(context, p);
    case Direction::backward_weights:
      return std::make_unique<ConvolutionPlan<BackwardWeights>>(context, p);
    case Direction::backward:
      break;
  }
  throw Failure(Code::failed, "a convolution has no joint backward pass");
}

}  // namespace forecost::cuda
