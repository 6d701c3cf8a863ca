#include <cudnn.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/cuda/standin/cudnn_common.hpp"
#include "tests/cuda/standin/memory.hpp"

// Convolutions of cuDNN's classic interface: what algorithms there are, and their results.

namespace forecost::standin::cudnn {
namespace {

enum class Direction { forward, backward_data, backward_filter };

/// x and y are dx and dy as the direction has it.
struct Problem {
  Direction direction;
  Tensor x, y;
  Filter w;
  Convolution convolution;

  std::int64_t group_channels() const { return w.dims[1]; }
  double flops() const {
    return 2.0 * static_cast<double>(y.count()) *
           static_cast<double>(w.dims[1] * w.dims[2] * w.dims[3]);
  }
  std::string key() const {
    const Convolution& c = convolution;
    return parameters(static_cast<int>(direction), x, w.tensor(), y, c.pad_h, c.pad_w, c.stride_h,
                      c.stride_w, c.dilation_h, c.dilation_w, c.groups);
  }
};

struct Algorithm {
  int number;
  bool tensor_cores;
  bool winograd;
  double work;  ///< in parts of the direct one's
  std::size_t (*workspace)(const Problem&);
};

std::size_t none(const Problem&) { return 0; }
std::size_t indices(const Problem& p) {
  return static_cast<std::size_t>(p.w.dims[1] * p.w.dims[2] * p.w.dims[3]) * 8 + 1024;
}
std::size_t columns(const Problem& p) {
  return static_cast<std::size_t>(p.w.dims[1] * p.w.dims[2] * p.w.dims[3] * p.y.dims[2] *
                                  p.y.dims[3]) *
         4;
}
std::size_t transformed(const Problem& p) {
  return static_cast<std::size_t>(p.w.dims[0] * p.w.dims[1]) * 36 * 4 + p.x.bytes() * 2;
}

/// In the order of the heuristic's ranking. Of those left out the answer is: not supported.
const std::vector<Algorithm>& algorithms(Direction direction) {
  static const std::vector<Algorithm> forward{{1, true, false, 1.0, indices},
                                              {7, true, true, 0.6, transformed},
                                              {0, false, false, 1.5, none},
                                              {2, false, false, 1.3, columns}};
  static const std::vector<Algorithm> data{{1, true, false, 1.0, indices},
                                           {5, true, true, 0.6, transformed},
                                           {0, false, false, 1.5, none}};
  static const std::vector<Algorithm> filter{{1, true, false, 1.0, indices},
                                             {5, true, true, 0.6, transformed},
                                             {0, false, false, 1.5, none},
                                             {3, false, false, 1.4, columns}};
  switch (direction) {
    case Direction::forward:
      return forward;
    case Direction::backward_data:
      return data;
    default:
      return filter;
  }
}

/// As cuDNN's documentation has it ("Reproducibility").
bool is_deterministic(Direction direction, int algorithm) {
  switch (direction) {
    case Direction::forward:
      return true;
    case Direction::backward_data:
      return algorithm != CUDNN_CONVOLUTION_BWD_DATA_ALGO_0;
    default:
      return algorithm != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 &&
             algorithm != CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3;
  }
}

bool supports(const Algorithm& algorithm, const Problem& problem) {
  const Convolution& c = problem.convolution;
  return !algorithm.winograd ||
         (problem.w.dims[2] == 3 && problem.w.dims[3] == 3 && c.stride_h == 1 && c.stride_w == 1 &&
          c.dilation_h == 1 && c.dilation_w == 1 && c.groups == 1);
}

const Algorithm* find_algorithm(const Problem& problem, int number) {
  for (const Algorithm& algorithm : algorithms(problem.direction))
    if (algorithm.number == number && supports(algorithm, problem)) return &algorithm;
  return nullptr;
}

/// That an algorithm asks for, given the one that the descriptor has.
cudnnMathType_t math_of(const Algorithm& algorithm, const Problem& problem) {
  const cudnnMathType_t given = problem.convolution.math;
  if (given == CUDNN_FMA_MATH) return CUDNN_FMA_MATH;
  if (!algorithm.tensor_cores) return given == CUDNN_DEFAULT_MATH ? given : CUDNN_FMA_MATH;
  if (given == CUDNN_DEFAULT_MATH && problem.x.type == Type::f32) return CUDNN_DEFAULT_MATH;
  return given == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION ? given : CUDNN_TENSOR_OP_MATH;
}

bool on_tensor_cores(const Algorithm& algorithm, const Problem& problem) {
  return algorithm.tensor_cores && problem.convolution.math != CUDNN_FMA_MATH;
}

Rate rate_of(const Algorithm& algorithm, const Problem& problem) {
  if (!on_tensor_cores(algorithm, problem)) return Rate::f32;
  return problem.x.type == Type::f32 ? Rate::tf32 : Rate::f16;
}

/// Math types that were answered for a problem's algorithms.
std::map<std::string, std::set<cudnnMathType_t>>& recommended() {
  static auto* all = new std::map<std::string, std::set<cudnnMathType_t>>;
  return *all;
}
std::string key_of(const Problem& problem, int algorithm) {
  return problem.key() + '#' + std::to_string(algorithm);
}

cudnnStatus_t make_problem(Direction direction, cudnnTensorDescriptor_t x_descriptor,
                           cudnnFilterDescriptor_t w_descriptor,
                           cudnnConvolutionDescriptor_t convolution_descriptor,
                           cudnnTensorDescriptor_t y_descriptor, Problem& problem) {
  STANDIN_FIND(x, tensors, x_descriptor);
  STANDIN_FIND(w, filters, w_descriptor);
  STANDIN_FIND(convolution, convolutions, convolution_descriptor);
  STANDIN_FIND(y, tensors, y_descriptor);
  if (x.dims.size() != 4 || y.dims.size() != 4)
    return inconsistent("images of other than 4 dimensions");
  if (x.type != w.type || x.type != y.type) return inconsistent("data types differ");
  if (x.dims[0] != y.dims[0]) return inconsistent("batches of x and y differ");
  if (convolution.groups < 1 || x.dims[1] != w.dims[1] * convolution.groups)
    return inconsistent("channels of x are not those of w times the groups");
  if (y.dims[1] != w.dims[0] || w.dims[0] % convolution.groups != 0)
    return inconsistent("channels of y are not the filters of w, in whole groups");
  const auto extent = [](std::int64_t in, int pad, std::int64_t kernel, int dilation, int stride) {
    return (in + 2 * pad - ((kernel - 1) * dilation + 1)) / stride + 1;
  };
  const Convolution& c = convolution;
  if (y.dims[2] != extent(x.dims[2], c.pad_h, w.dims[2], c.dilation_h, c.stride_h) ||
      y.dims[3] != extent(x.dims[3], c.pad_w, w.dims[3], c.dilation_w, c.stride_w))
    return inconsistent("the extent of y is not that of x under this window");
  if (c.compute != CUDNN_DATA_FLOAT && x.type != Type::f64)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "compute type other than float");
  if (unsupported("convolution"))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "stand-in: convolution is not to be supported");
  problem = {direction, x, y, w, convolution};
  return CUDNN_STATUS_SUCCESS;
}

Work work_of(const Algorithm& algorithm, const Problem& problem) {
  Work work;
  work.flops = problem.flops() * algorithm.work;
  work.rate = rate_of(algorithm, problem);
  return work;
}

/// As the model has it, and without noise.
double seconds_of(const Algorithm& algorithm, const Problem& problem) {
  const Model& model = state().device().model;
  const Rate rate = rate_of(algorithm, problem);
  const double flops = problem.flops() * algorithm.work;
  const double bytes =
      static_cast<double>(problem.x.bytes() + problem.y.bytes() + problem.w.tensor().bytes());
  return model.kernel_s + std::max(flops / (rate == Rate::f32    ? model.f32_flops
                                            : rate == Rate::tf32 ? model.tf32_flops
                                                                 : model.f16_flops),
                                   bytes / model.bandwidth);
}

/// For Get (find = false) and Find.
template <class Performance>
cudnnStatus_t rank(cudnnHandle_t handle, Direction direction, cudnnTensorDescriptor_t x,
                   cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t convolution,
                   cudnnTensorDescriptor_t y, bool find, int room, int* count,
                   Performance* results) {
  if (!stream_of_handle(handle)) return CUDNN_STATUS_BAD_PARAM;
  if (state().sticky != cudaSuccess) return status_of(state().sticky);
  Problem problem{};
  if (const cudnnStatus_t status = make_problem(direction, x, w, convolution, y, problem);
      status != CUDNN_STATUS_SUCCESS)
    return status;
  std::vector<Performance> found;
  const auto add = [&](const Algorithm& algorithm, const Problem& tried) {
    Performance result{};
    result.algo = static_cast<decltype(result.algo)>(algorithm.number);
    result.status = supports(algorithm, tried) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    result.memory = supports(algorithm, tried) ? algorithm.workspace(tried) : 0;
    result.determinism = is_deterministic(direction, algorithm.number) ? CUDNN_DETERMINISTIC
                                                                       : CUDNN_NON_DETERMINISTIC;
    result.mathType = math_of(algorithm, tried);
    Problem as_told = tried;
    as_told.convolution.math = result.mathType;
    result.time = find ? static_cast<float>(seconds_of(algorithm, as_told) * 1e3) : -1.0F;
    if (result.status != CUDNN_STATUS_SUCCESS) result.time = -1;
    found.push_back(result);
    if (result.status == CUDNN_STATUS_SUCCESS)
      recommended()[key_of(tried, algorithm.number)].insert(result.mathType);
  };
  // As documented, Find tries the given math type and the default one.
  Problem by_default = problem;
  by_default.convolution.math = CUDNN_DEFAULT_MATH;
  for (const Algorithm& algorithm : algorithms(direction)) {
    add(algorithm, problem);
    if (find && problem.convolution.math != CUDNN_DEFAULT_MATH) add(algorithm, by_default);
  }
  std::stable_sort(found.begin(), found.end(), [&](const Performance& a, const Performance& b) {
    const bool a_good = a.status == CUDNN_STATUS_SUCCESS, b_good = b.status == CUDNN_STATUS_SUCCESS;
    return a_good != b_good ? a_good : find && a_good && a.time < b.time;
  });
  *count = std::min(room, static_cast<int>(found.size()));
  std::copy_n(found.begin(), *count, results);
  if (find) {  // it runs them all, and waits
    State& all = state();
    for (const Performance& result : found)
      if (result.time > 0) all.host_s += result.time * 1e-3;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t workspace(Direction direction, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                        cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y,
                        int number, std::size_t* bytes) {
  Problem problem{};
  if (const cudnnStatus_t status = make_problem(direction, x, w, convolution, y, problem);
      status != CUDNN_STATUS_SUCCESS)
    return status;
  const Algorithm* algorithm = find_algorithm(problem, number);
  if (algorithm == nullptr)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED,
                  "algorithm " + std::to_string(number) + " does not support this convolution");
  *bytes = algorithm->workspace(problem);
  return CUDNN_STATUS_SUCCESS;
}

/// Calls visit(output element, input element, weight) of dense nchw x, y and kcrs w.
template <class Visit>
void for_each_product(const Problem& problem, Visit visit) {
  const Convolution& c = problem.convolution;
  const std::int64_t N = problem.x.dims[0], C = problem.x.dims[1], H = problem.x.dims[2],
                     W = problem.x.dims[3];
  const std::int64_t K = problem.y.dims[1], P = problem.y.dims[2], Q = problem.y.dims[3];
  const std::int64_t CG = problem.w.dims[1], R = problem.w.dims[2], S = problem.w.dims[3];
  const std::int64_t KG = K / c.groups;
  for (std::int64_t n = 0; n < N; ++n)
    for (std::int64_t k = 0; k < K; ++k)
      for (std::int64_t ch = 0; ch < CG; ++ch)
        for (std::int64_t r = 0; r < R; ++r)
          for (std::int64_t s = 0; s < S; ++s) {
            const std::int64_t rr = c.mode == CUDNN_CONVOLUTION ? R - 1 - r : r;
            const std::int64_t ss = c.mode == CUDNN_CONVOLUTION ? S - 1 - s : s;
            const std::size_t weight = ((k * CG + ch) * R + rr) * S + ss;
            const std::int64_t plane = n * C + k / KG * CG + ch;
            for (std::int64_t p = 0; p < P; ++p) {
              const std::int64_t h = p * c.stride_h - c.pad_h + r * c.dilation_h;
              if (h < 0 || h >= H) continue;
              const std::size_t out = ((n * K + k) * P + p) * Q;
              const std::int64_t in = (plane * H + h) * W;
              for (std::int64_t q = 0; q < Q; ++q) {
                const std::int64_t w = q * c.stride_w - c.pad_w + s * c.dilation_w;
                if (w >= 0 && w < W) visit(out + q, static_cast<std::size_t>(in + w), weight);
              }
            }
          }
}

cudnnStatus_t run(cudnnHandle_t handle, Direction direction, const void* alpha_pointer,
                  const void* beta_pointer, cudnnTensorDescriptor_t x_descriptor, void* x,
                  cudnnFilterDescriptor_t w_descriptor, void* w,
                  cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y_descriptor,
                  void* y, int number, void* workspace, std::size_t workspace_bytes) {
  if (!stream_of_handle(handle)) return CUDNN_STATUS_BAD_PARAM;
  if (state().sticky != cudaSuccess) return status_of(state().sticky);
  Problem problem{};
  if (const cudnnStatus_t status =
          make_problem(direction, x_descriptor, w_descriptor, convolution, y_descriptor, problem);
      status != CUDNN_STATUS_SUCCESS)
    return status;
  const Algorithm* algorithm = find_algorithm(problem, number);
  if (algorithm == nullptr)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED,
                  "algorithm " + std::to_string(number) + " does not support this convolution");
  const std::size_t needed = algorithm->workspace(problem);
  if (workspace_bytes < needed) {
    violation("workspace", std::string(state().call) + " is given " +
                               std::to_string(workspace_bytes) + " bytes, algorithm " +
                               std::to_string(number) + " was said to need " +
                               std::to_string(needed));
    return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "workspace too small");
  }
  const auto answered = recommended().find(key_of(problem, number));
  if (answered != recommended().end() && answered->second.count(problem.convolution.math) == 0)
    violation("math type", std::string(state().call) + ": algorithm " + std::to_string(number) +
                               " runs with math type " +
                               std::to_string(static_cast<int>(problem.convolution.math)) +
                               ", which was not the one answered for it");
  const double alpha = scale(alpha_pointer), beta = scale(beta_pointer);
  Work work = work_of(*algorithm, problem);
  const std::size_t w_bytes = problem.w.tensor().bytes();
  switch (direction) {
    case Direction::forward:
      work.operands = {reads(x, problem.x.bytes(), "x"), reads(w, w_bytes, "w"),
                       result(y, problem.y.bytes(), beta, "y")};
      break;
    case Direction::backward_data:
      work.operands = {reads(w, w_bytes, "w"), reads(y, problem.y.bytes(), "dy"),
                       result(x, problem.x.bytes(), beta, "dx")};
      break;
    default:
      work.operands = {reads(x, problem.x.bytes(), "x"), reads(y, problem.y.bytes(), "dy"),
                       result(w, w_bytes, beta, "dw")};
  }
  // All that is granted must be there.
  if (workspace_bytes > 0) work.operands.push_back(scratch(workspace, workspace_bytes));
  work.bytes = static_cast<double>(problem.x.bytes() + problem.y.bytes() + w_bytes);
  const bool tensor_cores = on_tensor_cores(*algorithm, problem);
  work.parameters = problem.key() + parameters(number, alpha, beta, tensor_cores);
  work.memorable = is_deterministic(direction, number);
  work.compute = [=, fixed_order = work.memorable] {
    const Tensor weights = problem.w.tensor();
    std::vector<float> dense_x, dense_w, dense_y;
    const auto round = [&](std::vector<float>& values) {
      if (tensor_cores && problem.x.type == Type::f32) round_to_tf32(values);
    };
    const auto take = [&](std::vector<float>& values, const Tensor& tensor, const void* memory) {
      values = load_dense(tensor, memory);
      round(values);
    };
    if (direction != Direction::backward_data) take(dense_x, problem.x, x);
    if (direction != Direction::backward_filter) take(dense_w, weights, w);
    if (direction != Direction::forward) take(dense_y, problem.y, y);
    switch (direction) {
      case Direction::forward:
        dense_y.assign(static_cast<std::size_t>(problem.y.count()), 0);
        for_each_product(problem, [&](std::size_t out, std::size_t in, std::size_t weight) {
          dense_y[out] += dense_x[in] * dense_w[weight];
        });
        store_dense(problem.y, y, dense_y, alpha, beta);
        break;
      case Direction::backward_data:
        dense_x.assign(static_cast<std::size_t>(problem.x.count()), 0);
        for_each_product(problem, [&](std::size_t out, std::size_t in, std::size_t weight) {
          dense_x[in] += dense_y[out] * dense_w[weight];
        });
        store_dense(problem.x, x, dense_x, alpha, beta);
        if (!fixed_order) disturb(problem.x, x);
        break;
      default:
        dense_w.assign(static_cast<std::size_t>(weights.count()), 0);
        for_each_product(problem, [&](std::size_t out, std::size_t in, std::size_t weight) {
          dense_w[weight] += dense_y[out] * dense_x[in];
        });
        store_dense(weights, w, dense_w, alpha, beta);
        if (!fixed_order) disturb(weights, w);
    }
  };
  return submit(handle, std::move(work));
}

}  // namespace
}  // namespace forecost::standin::cudnn

using namespace forecost::standin;
using namespace forecost::standin::cudnn;

extern "C" {

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* descriptor) {
  const Call call("cudnnCreateConvolutionDescriptor", Call::prepares);
  *descriptor = tables().convolutions.make();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t descriptor) {
  const Call call("cudnnDestroyConvolutionDescriptor", Call::prepares);
  return tables().convolutions.release(descriptor) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t descriptor, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  const Call call("cudnnSetConvolution2dDescriptor", Call::prepares);
  const auto found = tables().convolutions.find(descriptor);
  if (!found) return CUDNN_STATUS_BAD_PARAM;
  if (pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1 || dilation_h < 1 || dilation_w < 1)
    return inconsistent("padding below 0, or stride or dilation below 1");
  found->set = true;
  found->pad_h = pad_h;
  found->pad_w = pad_w;
  found->stride_h = stride_h;
  found->stride_w = stride_w;
  found->dilation_h = dilation_h;
  found->dilation_w = dilation_w;
  found->mode = mode;
  found->compute = compute;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor,
                                          cudnnMathType_t math) {
  const Call call("cudnnSetConvolutionMathType", Call::prepares);
  const auto found = tables().convolutions.find(descriptor);
  if (!found) return CUDNN_STATUS_BAD_PARAM;
  found->math = math;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionMathType(cudnnConvolutionDescriptor_t descriptor,
                                          cudnnMathType_t* math) {
  const Call call("cudnnGetConvolutionMathType");
  const auto found = tables().convolutions.find(descriptor);
  if (!found) return CUDNN_STATUS_BAD_PARAM;
  *math = found->math;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t descriptor, int groups) {
  const Call call("cudnnSetConvolutionGroupCount", Call::prepares);
  const auto found = tables().convolutions.find(descriptor);
  if (!found) return CUDNN_STATUS_BAD_PARAM;
  found->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionGroupCount(cudnnConvolutionDescriptor_t descriptor, int* groups) {
  const Call call("cudnnGetConvolutionGroupCount");
  const auto found = tables().convolutions.find(descriptor);
  if (!found) return CUDNN_STATUS_BAD_PARAM;
  *groups = found->groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(cudnnConvolutionDescriptor_t descriptor,
                                                    cudnnTensorDescriptor_t x_descriptor,
                                                    cudnnFilterDescriptor_t w_descriptor, int* n,
                                                    int* c, int* h, int* w) {
  const Call call("cudnnGetConvolution2dForwardOutputDim");
  STANDIN_FIND(convolution, convolutions, descriptor);
  STANDIN_FIND(x, tensors, x_descriptor);
  STANDIN_FIND(filter, filters, w_descriptor);
  *n = static_cast<int>(x.dims[0]);
  *c = static_cast<int>(filter.dims[0]);
  *h = static_cast<int>(
      (x.dims[2] + 2 * convolution.pad_h - ((filter.dims[2] - 1) * convolution.dilation_h + 1)) /
          convolution.stride_h +
      1);
  *w = static_cast<int>(
      (x.dims[3] + 2 * convolution.pad_w - ((filter.dims[3] - 1) * convolution.dilation_w + 1)) /
          convolution.stride_w +
      1);
  return CUDNN_STATUS_SUCCESS;
}

// --- forward ---

cudnnStatus_t cudnnGetConvolutionForwardAlgorithmMaxCount(cudnnHandle_t, int* count) {
  *count = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y, int room, int* count,
    cudnnConvolutionFwdAlgoPerf_t* results) {
  const Call call("cudnnGetConvolutionForwardAlgorithm_v7", Call::prepares);
  return rank(handle, Direction::forward, x, w, convolution, y, false, room, count, results);
}
cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                   cudnnFilterDescriptor_t w,
                                                   cudnnConvolutionDescriptor_t convolution,
                                                   cudnnTensorDescriptor_t y, int room, int* count,
                                                   cudnnConvolutionFwdAlgoPerf_t* results) {
  const Call call("cudnnFindConvolutionForwardAlgorithm", Call::prepares);
  return rank(handle, Direction::forward, x, w, convolution, y, true, room, count, results);
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w,
                                                      cudnnConvolutionDescriptor_t convolution,
                                                      cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t algorithm,
                                                      std::size_t* bytes) {
  const Call call("cudnnGetConvolutionForwardWorkspaceSize", Call::prepares);
  return workspace(Direction::forward, x, w, convolution, y, algorithm, bytes);
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      cudnnTensorDescriptor_t x_descriptor, const void* x,
                                      cudnnFilterDescriptor_t w_descriptor, const void* w,
                                      cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* space,
                                      std::size_t space_bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_descriptor, void* y) {
  const Call call("cudnnConvolutionForward");
  return run(handle, Direction::forward, alpha, beta, x_descriptor, const_cast<void*>(x),
             w_descriptor, const_cast<void*>(w), convolution, y_descriptor, y, algorithm, space,
             space_bytes);
}

// --- backward data ---

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithmMaxCount(cudnnHandle_t, int* count) {
  *count = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t y,
    cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t x, int room, int* count,
    cudnnConvolutionBwdDataAlgoPerf_t* results) {
  const Call call("cudnnGetConvolutionBackwardDataAlgorithm_v7", Call::prepares);
  return rank(handle, Direction::backward_data, x, w, convolution, y, false, room, count, results);
}
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t y,
    cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t x, int room, int* count,
    cudnnConvolutionBwdDataAlgoPerf_t* results) {
  const Call call("cudnnFindConvolutionBackwardDataAlgorithm", Call::prepares);
  return rank(handle, Direction::backward_data, x, w, convolution, y, true, room, count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                           cudnnTensorDescriptor_t y,
                                                           cudnnConvolutionDescriptor_t convolution,
                                                           cudnnTensorDescriptor_t x,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm,
                                                           std::size_t* bytes) {
  const Call call("cudnnGetConvolutionBackwardDataWorkspaceSize", Call::prepares);
  return workspace(Direction::backward_data, x, w, convolution, y, algorithm, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           cudnnFilterDescriptor_t w_descriptor, const void* w,
                                           cudnnTensorDescriptor_t y_descriptor, const void* y,
                                           cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* space,
                                           std::size_t space_bytes, const void* beta,
                                           cudnnTensorDescriptor_t x_descriptor, void* x) {
  const Call call("cudnnConvolutionBackwardData");
  return run(handle, Direction::backward_data, alpha, beta, x_descriptor, x, w_descriptor,
             const_cast<void*>(w), convolution, y_descriptor, const_cast<void*>(y), algorithm,
             space, space_bytes);
}

// --- backward filter ---

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(cudnnHandle_t, int* count) {
  *count = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y,
    cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t w, int room, int* count,
    cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  const Call call("cudnnGetConvolutionBackwardFilterAlgorithm_v7", Call::prepares);
  return rank(handle, Direction::backward_filter, x, w, convolution, y, false, room, count,
              results);
}
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y,
    cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t w, int room, int* count,
    cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  const Call call("cudnnFindConvolutionBackwardFilterAlgorithm", Call::prepares);
  return rank(handle, Direction::backward_filter, x, w, convolution, y, true, room, count, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y,
    cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t w,
    cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes) {
  const Call call("cudnnGetConvolutionBackwardFilterWorkspaceSize", Call::prepares);
  return workspace(Direction::backward_filter, x, w, convolution, y, algorithm, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             cudnnTensorDescriptor_t x_descriptor, const void* x,
                                             cudnnTensorDescriptor_t y_descriptor, const void* y,
                                             cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* space,
                                             std::size_t space_bytes, const void* beta,
                                             cudnnFilterDescriptor_t w_descriptor, void* w) {
  const Call call("cudnnConvolutionBackwardFilter");
  return run(handle, Direction::backward_filter, alpha, beta, x_descriptor, const_cast<void*>(x),
             w_descriptor, w, convolution, y_descriptor, const_cast<void*>(y), algorithm, space,
             space_bytes);
}

}  // extern "C"
