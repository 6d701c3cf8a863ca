#include <cudnn.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/cuda/standin/cudnn_common.hpp"
#include "tests/cuda/standin/cudnn_layers.hpp"
#include "tests/cuda/standin/memory.hpp"

// Pooling, batch normalisation, softmax, activation and dropout of cuDNN's classic interface.

namespace forecost::standin::cudnn {

LayerTables& layer_tables() {
  static auto* all = new LayerTables;
  return *all;
}

namespace {

/// What calls begin with: the status to answer at once, if any.
cudnnStatus_t begin(cudnnHandle_t handle, const char* operation) {
  if (!stream_of_handle(handle)) return CUDNN_STATUS_BAD_PARAM;
  if (state().sticky != cudaSuccess) return status_of(state().sticky);
  if (unsupported(operation))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED,
                  std::string("stand-in: ") + operation + " is not to be supported");
  return CUDNN_STATUS_SUCCESS;
}

#define STANDIN_BEGIN(operation)                                                           \
  if (const cudnnStatus_t begun = begin(handle, operation); begun != CUDNN_STATUS_SUCCESS) \
  return begun

#define STANDIN_FIND_LAYER(name, table, descriptor)                        \
  const auto name##_found = layer_tables().table.find(descriptor);         \
  if (!name##_found) return CUDNN_STATUS_BAD_PARAM;                        \
  if (!name##_found->set) return inconsistent(#descriptor " was not set"); \
  const auto& name = *name##_found

bool alike(const Tensor& a, const Tensor& b) { return a.type == b.type && a.dims == b.dims; }

// --- pooling ---

/// Calls visit(input element, output element) for what lies under each window.
template <class Visit>
void for_each_window(const Pooling& p, const Tensor& x, const Tensor& y, std::int64_t plane,
                     std::int64_t oh, std::int64_t ow, Visit visit) {
  const std::int64_t H = x.dims[2], W = x.dims[3];
  (void)y;
  for (int r = 0; r < p.window_h; ++r)
    for (int s = 0; s < p.window_w; ++s) {
      const std::int64_t h = oh * p.stride_h - p.pad_h + r, w = ow * p.stride_w - p.pad_w + s;
      if (h >= 0 && h < H && w >= 0 && w < W)
        visit(static_cast<std::size_t>((plane * H + h) * W + w));
    }
}

bool is_maximum(const Pooling& p) {
  return p.mode == CUDNN_POOLING_MAX || p.mode == CUDNN_POOLING_MAX_DETERMINISTIC;
}

template <class Visit>
void for_each_output(const Tensor& y, Visit visit) {
  std::size_t i = 0;
  for (std::int64_t plane = 0; plane < y.dims[0] * y.dims[1]; ++plane)
    for (std::int64_t h = 0; h < y.dims[2]; ++h)
      for (std::int64_t w = 0; w < y.dims[3]; ++w) visit(i++, plane, h, w);
}

std::int64_t extent(std::int64_t in, int pad, int window, int stride) {
  return (in + 2 * pad - window) / stride + 1;
}

cudnnStatus_t check_pooling(const Pooling& p, const Tensor& x, const Tensor& y) {
  if (x.dims.size() != 4 || y.dims.size() != 4 || x.type != y.type || x.dims[0] != y.dims[0] ||
      x.dims[1] != y.dims[1])
    return inconsistent("x and y differ in type, batch or channels");
  if (y.dims[2] != extent(x.dims[2], p.pad_h, p.window_h, p.stride_h) ||
      y.dims[3] != extent(x.dims[3], p.pad_w, p.window_w, p.stride_w))
    return inconsistent("the extent of y is not that of x under this window");
  return CUDNN_STATUS_SUCCESS;
}

std::string key_of(const Pooling& p) {
  return parameters(static_cast<int>(p.mode), p.window_h, p.window_w, p.pad_h, p.pad_w, p.stride_h,
                    p.stride_w);
}

// --- batch norm ---

/// Calls visit(element, channel) of dense nchw.
template <class Visit>
void for_each_of_channel(const Tensor& x, std::int64_t channel, Visit visit) {
  std::int64_t spatial = 1;
  for (std::size_t d = 2; d < x.dims.size(); ++d) spatial *= x.dims[d];
  for (std::int64_t n = 0; n < x.dims[0]; ++n)
    for (std::int64_t i = 0; i < spatial; ++i)
      visit(static_cast<std::size_t>((n * x.dims[1] + channel) * spatial + i));
}

cudnnStatus_t check_parameters(const Tensor& x, const Tensor& parameters) {
  if (parameters.count() != x.dims[1] || parameters.dims.size() < 2 ||
      parameters.dims[1] != x.dims[1])
    return inconsistent("parameters are not one of each channel of x");
  if (parameters.type != Type::f32) return inconsistent("parameters are not f32");
  return CUDNN_STATUS_SUCCESS;
}

std::size_t norm_workspace(cudnnBatchNormMode_t mode, const Tensor& x) {
  return mode == CUDNN_BATCHNORM_SPATIAL_PERSISTENT ? static_cast<std::size_t>(x.dims[1]) * 8 + 256
                                                    : 0;
}
std::size_t norm_reserve(cudnnBatchNormMode_t mode, const Tensor&) {
  return mode == CUDNN_BATCHNORM_SPATIAL_PERSISTENT ? 256 : 0;
}

bool check_size(const char* what, std::size_t given, std::size_t needed) {
  if (given >= needed) return true;
  violation(what, std::string(state().call) + " is given " + std::to_string(given) +
                      " bytes, was said to need " + std::to_string(needed));
  return false;
}

// --- activation ---

double activated(cudnnActivationMode_t mode, double coefficient, double x) {
  switch (mode) {
    case CUDNN_ACTIVATION_SIGMOID:
      return 1 / (1 + std::exp(-x));
    case CUDNN_ACTIVATION_RELU:
      return std::max(x, 0.0);
    case CUDNN_ACTIVATION_TANH:
      return std::tanh(x);
    case CUDNN_ACTIVATION_CLIPPED_RELU:
      return std::min(std::max(x, 0.0), coefficient);
    case CUDNN_ACTIVATION_ELU:
      return x > 0 ? x : coefficient * std::expm1(x);
    case CUDNN_ACTIVATION_SWISH:
      return x / (1 + std::exp(-x));
    default:
      return x;
  }
}

double derivative(cudnnActivationMode_t mode, double coefficient, double x, double y) {
  switch (mode) {
    case CUDNN_ACTIVATION_SIGMOID:
      return y * (1 - y);
    case CUDNN_ACTIVATION_RELU:
      return y > 0 ? 1 : 0;
    case CUDNN_ACTIVATION_TANH:
      return 1 - y * y;
    case CUDNN_ACTIVATION_CLIPPED_RELU:
      return x > 0 && x < coefficient ? 1 : 0;
    case CUDNN_ACTIVATION_ELU:
      return x > 0 ? 1 : y + coefficient;
    case CUDNN_ACTIVATION_SWISH: {
      const double s = 1 / (1 + std::exp(-x));
      return s + x * s * (1 - s);
    }
    default:
      return 1;
  }
}

// --- softmax ---

/// Calls visit(first element, stride, length) for each vector that is normalised, of dense nchw.
template <class Visit>
void for_each_vector(const Tensor& x, cudnnSoftmaxMode_t mode, Visit visit) {
  std::int64_t inner = 1;
  for (std::size_t d = 2; d < x.dims.size(); ++d) inner *= x.dims[d];
  if (mode == CUDNN_SOFTMAX_MODE_INSTANCE) {
    for (std::int64_t n = 0; n < x.dims[0]; ++n)
      visit(n * x.dims[1] * inner, std::int64_t{1}, x.dims[1] * inner);
    return;
  }
  for (std::int64_t n = 0; n < x.dims[0]; ++n)
    for (std::int64_t i = 0; i < inner; ++i) visit(n * x.dims[1] * inner + i, inner, x.dims[1]);
}

// --- dropout ---

constexpr std::size_t state_bytes = 16384;
constexpr std::uint64_t mask_mark = 0x6d61736b6d61736b;

std::size_t mask_bytes(const Tensor& x) { return static_cast<std::size_t>(x.count() + 7) / 8 + 8; }

double uniform(std::uint64_t seed, std::uint64_t step, std::uint64_t i) {
  std::uint64_t z = seed * 0x9e3779b97f4a7c15 + step * 0xd1342543de82ef95 + i;
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

}  // namespace
}  // namespace forecost::standin::cudnn

using namespace forecost::standin;
using namespace forecost::standin::cudnn;

extern "C" {

// --- pooling ---

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* descriptor) {
  const Call call("cudnnCreatePoolingDescriptor", Call::prepares);
  *descriptor = layer_tables().poolings.make();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t descriptor) {
  const Call call("cudnnDestroyPoolingDescriptor", Call::prepares);
  return layer_tables().poolings.release(descriptor) ? CUDNN_STATUS_SUCCESS
                                                     : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t descriptor,
                                          cudnnPoolingMode_t mode, cudnnNanPropagation_t,
                                          int window_h, int window_w, int pad_h, int pad_w,
                                          int stride_h, int stride_w) {
  const Call call("cudnnSetPooling2dDescriptor", Call::prepares);
  const auto found = layer_tables().poolings.find(descriptor);
  if (!found) return CUDNN_STATUS_BAD_PARAM;
  if (window_h < 1 || window_w < 1 || stride_h < 1 || stride_w < 1 || pad_h < 0 || pad_w < 0)
    return inconsistent("a window or stride below 1, or padding below 0");
  *found = {true, mode, window_h, window_w, pad_h, pad_w, stride_h, stride_w};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetPooling2dForwardOutputDim(cudnnPoolingDescriptor_t descriptor,
                                                cudnnTensorDescriptor_t x_descriptor, int* n,
                                                int* c, int* h, int* w) {
  const Call call("cudnnGetPooling2dForwardOutputDim");
  STANDIN_FIND_LAYER(pooling, poolings, descriptor);
  STANDIN_FIND(x, tensors, x_descriptor);
  *n = static_cast<int>(x.dims[0]);
  *c = static_cast<int>(x.dims[1]);
  *h = static_cast<int>(extent(x.dims[2], pooling.pad_h, pooling.window_h, pooling.stride_h));
  *w = static_cast<int>(extent(x.dims[3], pooling.pad_w, pooling.window_w, pooling.stride_w));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, cudnnPoolingDescriptor_t descriptor,
                                  const void* alpha_at, cudnnTensorDescriptor_t x_descriptor,
                                  const void* x_at, const void* beta_at,
                                  cudnnTensorDescriptor_t y_descriptor, void* y_at) {
  const Call call("cudnnPoolingForward");
  STANDIN_BEGIN("pooling");
  STANDIN_FIND_LAYER(pooling, poolings, descriptor);
  STANDIN_FIND(x, tensors, x_descriptor);
  STANDIN_FIND(y, tensors, y_descriptor);
  if (const auto bad = check_pooling(pooling, x, y); bad != CUDNN_STATUS_SUCCESS) return bad;
  const double alpha = scale(alpha_at), beta = scale(beta_at);
  Work work;
  work.operands = {reads(x_at, x.bytes(), "x"), result(y_at, y.bytes(), beta, "y")};
  work.flops = static_cast<double>(y.count()) * pooling.window_h * pooling.window_w;
  work.parameters = key_of(pooling) + parameters(x, y, alpha, beta);
  work.memorable = true;
  work.compute = [=, pooling = pooling, x = x, y = y] {
    const std::vector<float> in = load_dense(x, x_at);
    std::vector<float> out(static_cast<std::size_t>(y.count()));
    for_each_output(y, [&](std::size_t i, std::int64_t plane, std::int64_t h, std::int64_t w) {
      double sum = 0, largest = -std::numeric_limits<double>::infinity();
      int count = 0;
      for_each_window(pooling, x, y, plane, h, w, [&](std::size_t j) {
        sum += in[j];
        largest = std::max<double>(largest, in[j]);
        ++count;
      });
      if (pooling.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING)
        count = pooling.window_h * pooling.window_w;
      out[i] = static_cast<float>(is_maximum(pooling) ? largest : count == 0 ? 0 : sum / count);
    });
    store_dense(y, y_at, out, alpha, beta);
  };
  return submit(handle, std::move(work));
}

cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, cudnnPoolingDescriptor_t descriptor,
                                   const void* alpha_at, cudnnTensorDescriptor_t y_descriptor,
                                   const void* y_at, cudnnTensorDescriptor_t dy_descriptor,
                                   const void* dy_at, cudnnTensorDescriptor_t x_descriptor,
                                   const void* x_at, const void* beta_at,
                                   cudnnTensorDescriptor_t dx_descriptor, void* dx_at) {
  const Call call("cudnnPoolingBackward");
  STANDIN_BEGIN("pooling");
  STANDIN_FIND_LAYER(pooling, poolings, descriptor);
  STANDIN_FIND(y, tensors, y_descriptor);
  STANDIN_FIND(dy, tensors, dy_descriptor);
  STANDIN_FIND(x, tensors, x_descriptor);
  STANDIN_FIND(dx, tensors, dx_descriptor);
  if (const auto bad = check_pooling(pooling, x, y); bad != CUDNN_STATUS_SUCCESS) return bad;
  if (!alike(y, dy) || !alike(x, dx)) return inconsistent("gradients are not as their tensors");
  const double alpha = scale(alpha_at), beta = scale(beta_at);
  Work work;
  work.operands = {reads(y_at, y.bytes(), "y"), reads(dy_at, dy.bytes(), "dy"),
                   reads(x_at, x.bytes(), "x"), result(dx_at, dx.bytes(), beta, "dx")};
  work.flops = static_cast<double>(y.count()) * pooling.window_h * pooling.window_w;
  work.parameters = key_of(pooling) + parameters(x, y, dx, dy, alpha, beta);
  // As cuDNN's documentation has it ("Reproducibility").
  work.memorable = pooling.mode != CUDNN_POOLING_MAX;
  work.compute = [=, fixed_order = work.memorable, pooling = pooling, x = x, y = y, dx = dx,
                  dy = dy] {
    const std::vector<float> in = load_dense(x, x_at), gradient = load_dense(dy, dy_at);
    std::vector<float> out(static_cast<std::size_t>(x.count()), 0);
    for_each_output(y, [&](std::size_t i, std::int64_t plane, std::int64_t h, std::int64_t w) {
      std::vector<std::size_t> window;
      for_each_window(pooling, x, y, plane, h, w, [&](std::size_t j) { window.push_back(j); });
      if (window.empty()) return;
      if (is_maximum(pooling)) {
        out[*std::max_element(window.begin(), window.end(), [&](std::size_t a, std::size_t b) {
          return in[a] < in[b];
        })] += gradient[i];
        return;
      }
      const double count = pooling.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                               ? pooling.window_h * pooling.window_w
                               : static_cast<double>(window.size());
      for (const std::size_t j : window) out[j] += static_cast<float>(gradient[i] / count);
    });
    store_dense(dx, dx_at, out, alpha, beta);
    if (!fixed_order) disturb(dx, dx_at);
  };
  return submit(handle, std::move(work));
}

// --- batch norm ---

cudnnStatus_t cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t derived_descriptor,
                                            cudnnTensorDescriptor_t x_descriptor,
                                            cudnnBatchNormMode_t mode) {
  const Call call("cudnnDeriveBNTensorDescriptor", Call::prepares);
  const auto derived = tables().tensors.find(derived_descriptor);
  STANDIN_FIND(x, tensors, x_descriptor);
  if (!derived) return CUDNN_STATUS_BAD_PARAM;
  if (mode == CUDNN_BATCHNORM_PER_ACTIVATION)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "stand-in: per activation");
  *derived = {true, Type::f32, {1, x.dims[1], 1, 1}, {x.dims[1], 1, 1, 1}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t, const void* alpha_at, const void* beta_at,
    cudnnTensorDescriptor_t x_descriptor, const void* x_at, cudnnTensorDescriptor_t y_descriptor,
    void* y_at, cudnnTensorDescriptor_t parameter_descriptor, const void* gain_at,
    const void* shift_at, const void* mean_at, const void* variance_at, double epsilon) {
  const Call call("cudnnBatchNormalizationForwardInference");
  STANDIN_BEGIN("batch_norm");
  STANDIN_FIND(x, tensors, x_descriptor);
  STANDIN_FIND(y, tensors, y_descriptor);
  STANDIN_FIND(channels, tensors, parameter_descriptor);
  if (!alike(x, y)) return inconsistent("x and y differ");
  if (const auto bad = check_parameters(x, channels); bad != CUDNN_STATUS_SUCCESS) return bad;
  const double alpha = scale(alpha_at), beta = scale(beta_at);
  Work work;
  work.operands = {reads(x_at, x.bytes(), "x"),
                   reads(gain_at, channels.bytes(), "scale"),
                   reads(shift_at, channels.bytes(), "bias"),
                   reads(mean_at, channels.bytes(), "mean"),
                   reads(variance_at, channels.bytes(), "variance"),
                   result(y_at, y.bytes(), beta, "y")};
  work.flops = 2.0 * static_cast<double>(x.count());
  work.parameters = parameters(x, y, alpha, beta, epsilon);
  work.memorable = true;
  work.compute = [=, x = x, y = y] {
    const std::vector<float> in = load_dense(x, x_at);
    std::vector<float> out(in.size());
    for (std::int64_t c = 0; c < x.dims[1]; ++c) {
      const std::size_t i = static_cast<std::size_t>(c);
      const double deviation = std::sqrt(load(Type::f32, variance_at, i) + epsilon);
      const double gain = load(Type::f32, gain_at, i) / deviation;
      const double mean = load(Type::f32, mean_at, i), shift = load(Type::f32, shift_at, i);
      for_each_of_channel(
          x, c, [&](std::size_t j) { out[j] = static_cast<float>((in[j] - mean) * gain + shift); });
    }
    store_dense(y, y_at, out, alpha, beta);
  };
  return submit(handle, std::move(work));
}

cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t operations,
    cudnnTensorDescriptor_t x_descriptor, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnTensorDescriptor_t, cudnnActivationDescriptor_t, std::size_t* bytes) {
  const Call call("cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize", Call::prepares);
  STANDIN_BEGIN("batch_norm");
  STANDIN_FIND(x, tensors, x_descriptor);
  if (operations != CUDNN_BATCHNORM_OPS_BN)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "stand-in: fused operations");
  *bytes = norm_workspace(mode, x);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t operations,
    cudnnTensorDescriptor_t x_descriptor, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnActivationDescriptor_t, std::size_t* bytes) {
  const Call call("cudnnGetBatchNormalizationBackwardExWorkspaceSize", Call::prepares);
  STANDIN_BEGIN("batch_norm");
  STANDIN_FIND(x, tensors, x_descriptor);
  if (operations != CUDNN_BATCHNORM_OPS_BN)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "stand-in: fused operations");
  *bytes = norm_workspace(mode, x);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t,
    cudnnActivationDescriptor_t, cudnnTensorDescriptor_t x_descriptor, std::size_t* bytes) {
  const Call call("cudnnGetBatchNormalizationTrainingExReserveSpaceSize", Call::prepares);
  STANDIN_BEGIN("batch_norm");
  STANDIN_FIND(x, tensors, x_descriptor);
  *bytes = norm_reserve(mode, x);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t operations,
    const void* alpha_at, const void* beta_at, cudnnTensorDescriptor_t x_descriptor,
    const void* x_at, cudnnTensorDescriptor_t, const void*, cudnnTensorDescriptor_t y_descriptor,
    void* y_at, cudnnTensorDescriptor_t parameter_descriptor, const void* gain_at,
    const void* shift_at, double factor, void* running_mean_at, void* running_variance_at,
    double epsilon, void* mean_at, void* inverse_at, cudnnActivationDescriptor_t, void* space,
    std::size_t space_bytes, void* reserve, std::size_t reserve_bytes) {
  const Call call("cudnnBatchNormalizationForwardTrainingEx");
  STANDIN_BEGIN("batch_norm");
  STANDIN_FIND(x, tensors, x_descriptor);
  STANDIN_FIND(y, tensors, y_descriptor);
  STANDIN_FIND(channels, tensors, parameter_descriptor);
  if (operations != CUDNN_BATCHNORM_OPS_BN)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "stand-in: fused operations");
  if (!alike(x, y)) return inconsistent("x and y differ");
  if ((mean_at == nullptr) != (inverse_at == nullptr) ||
      (running_mean_at == nullptr) != (running_variance_at == nullptr))
    return inconsistent("one of two statistics only");
  if (const auto bad = check_parameters(x, channels); bad != CUDNN_STATUS_SUCCESS) return bad;
  if (!check_size("workspace", space_bytes, norm_workspace(mode, x)) ||
      !check_size("reserve", reserve_bytes, norm_reserve(mode, x)))
    return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "workspace or reserve too small");
  const double alpha = scale(alpha_at), beta = scale(beta_at);
  const std::size_t bytes = channels.bytes();
  Work work;
  work.operands = {reads(x_at, x.bytes(), "x"), reads(gain_at, bytes, "scale"),
                   reads(shift_at, bytes, "bias"), result(y_at, y.bytes(), beta, "y")};
  if (mean_at != nullptr) {
    work.operands.push_back(writes(mean_at, bytes, "saved mean"));
    work.operands.push_back(writes(inverse_at, bytes, "saved deviation"));
  }
  if (running_mean_at != nullptr) {
    work.operands.push_back(updates(running_mean_at, bytes, "running mean"));
    work.operands.push_back(updates(running_variance_at, bytes, "running variance"));
  }
  if (space_bytes > 0) work.operands.push_back(scratch(space, space_bytes));
  if (reserve_bytes > 0) work.operands.push_back(writes(reserve, reserve_bytes, "reserve"));
  work.flops = 8.0 * static_cast<double>(x.count());
  work.parameters = parameters(x, y, alpha, beta, epsilon, factor, static_cast<int>(mode));
  work.memorable = true;
  work.compute = [=, x = x, y = y] {
    const std::vector<float> in = load_dense(x, x_at);
    std::vector<float> out(in.size());
    const double count = static_cast<double>(x.count()) / static_cast<double>(x.dims[1]);
    for (std::int64_t c = 0; c < x.dims[1]; ++c) {
      const std::size_t i = static_cast<std::size_t>(c);
      double sum = 0, squares = 0;
      for_each_of_channel(x, c, [&](std::size_t j) { sum += in[j]; });
      const double mean = sum / count;
      for_each_of_channel(x, c, [&](std::size_t j) { squares += (in[j] - mean) * (in[j] - mean); });
      const double variance = squares / count, inverse = 1 / std::sqrt(variance + epsilon);
      const double gain = load(Type::f32, gain_at, i), shift = load(Type::f32, shift_at, i);
      for_each_of_channel(x, c, [&](std::size_t j) {
        out[j] = static_cast<float>((in[j] - mean) * inverse * gain + shift);
      });
      if (mean_at != nullptr) {
        store(Type::f32, mean_at, i, mean);
        store(Type::f32, inverse_at, i, inverse);
      }
      if (running_mean_at == nullptr) continue;
      const double unbiased = count > 1 ? squares / (count - 1) : variance;
      store(Type::f32, running_mean_at, i,
            mean * factor + load(Type::f32, running_mean_at, i) * (1 - factor));
      store(Type::f32, running_variance_at, i,
            unbiased * factor + load(Type::f32, running_variance_at, i) * (1 - factor));
    }
    store_dense(y, y_at, out, alpha, beta);
    if (reserve_bytes > 0) std::memset(reserve, 0x42, reserve_bytes);
  };
  return submit(handle, std::move(work));
}

cudnnStatus_t cudnnBatchNormalizationBackwardEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t operations,
    const void* alpha_at, const void* beta_at, const void* parameter_alpha_at,
    const void* parameter_beta_at, cudnnTensorDescriptor_t x_descriptor, const void* x_at,
    cudnnTensorDescriptor_t, const void*, cudnnTensorDescriptor_t dy_descriptor, const void* dy_at,
    cudnnTensorDescriptor_t, void*, cudnnTensorDescriptor_t dx_descriptor, void* dx_at,
    cudnnTensorDescriptor_t parameter_descriptor, const void* gain_at, const void*, void* dgain_at,
    void* dshift_at, double epsilon, const void* mean_at, const void* inverse_at,
    cudnnActivationDescriptor_t, void* space, std::size_t space_bytes, void* reserve,
    std::size_t reserve_bytes) {
  const Call call("cudnnBatchNormalizationBackwardEx");
  STANDIN_BEGIN("batch_norm");
  STANDIN_FIND(x, tensors, x_descriptor);
  STANDIN_FIND(dy, tensors, dy_descriptor);
  STANDIN_FIND(dx, tensors, dx_descriptor);
  STANDIN_FIND(channels, tensors, parameter_descriptor);
  if (operations != CUDNN_BATCHNORM_OPS_BN)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "stand-in: fused operations");
  if (!alike(x, dy) || !alike(x, dx)) return inconsistent("x, dx and dy differ");
  if ((mean_at == nullptr) != (inverse_at == nullptr))
    return inconsistent("one of two statistics only");
  if (const auto bad = check_parameters(x, channels); bad != CUDNN_STATUS_SUCCESS) return bad;
  if (!check_size("workspace", space_bytes, norm_workspace(mode, x)) ||
      !check_size("reserve", reserve_bytes, norm_reserve(mode, x)))
    return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "workspace or reserve too small");
  const double alpha = scale(alpha_at), beta = scale(beta_at);
  const double parameter_alpha = scale(parameter_alpha_at),
               parameter_beta = scale(parameter_beta_at);
  const std::size_t bytes = channels.bytes();
  Work work;
  work.operands = {reads(x_at, x.bytes(), "x"),
                   reads(dy_at, dy.bytes(), "dy"),
                   reads(gain_at, bytes, "scale"),
                   result(dx_at, dx.bytes(), beta, "dx"),
                   result(dgain_at, bytes, parameter_beta, "dscale"),
                   result(dshift_at, bytes, parameter_beta, "dbias")};
  if (mean_at != nullptr) {
    work.operands.push_back(reads(mean_at, bytes, "saved mean"));
    work.operands.push_back(reads(inverse_at, bytes, "saved deviation"));
  }
  if (space_bytes > 0) work.operands.push_back(scratch(space, space_bytes));
  if (reserve_bytes > 0) work.operands.push_back(reads(reserve, reserve_bytes, "reserve"));
  work.flops = 12.0 * static_cast<double>(x.count());
  work.parameters = parameters(x, dx, dy, alpha, beta, parameter_alpha, parameter_beta, epsilon,
                               static_cast<int>(mode));
  work.memorable = true;
  work.compute = [=, x = x, dx = dx, dy = dy] {
    if (reserve_bytes > 0 && *static_cast<const unsigned char*>(reserve) != 0x42)
      violation("reserve", "the reserve of a batch norm's gradient is not of a forward pass");
    const std::vector<float> in = load_dense(x, x_at), gradient = load_dense(dy, dy_at);
    std::vector<float> out(in.size());
    const double count = static_cast<double>(x.count()) / static_cast<double>(x.dims[1]);
    for (std::int64_t c = 0; c < x.dims[1]; ++c) {
      const std::size_t i = static_cast<std::size_t>(c);
      double mean = 0, inverse = 0;
      if (mean_at != nullptr) {
        mean = load(Type::f32, mean_at, i);
        inverse = load(Type::f32, inverse_at, i);
      } else {
        double squares = 0;
        for_each_of_channel(x, c, [&](std::size_t j) { mean += in[j] / count; });
        for_each_of_channel(x, c,
                            [&](std::size_t j) { squares += (in[j] - mean) * (in[j] - mean); });
        inverse = 1 / std::sqrt(squares / count + epsilon);
      }
      double dshift = 0, dgain = 0;
      for_each_of_channel(x, c, [&](std::size_t j) {
        dshift += gradient[j];
        dgain += gradient[j] * (in[j] - mean) * inverse;
      });
      const double gain = load(Type::f32, gain_at, i);
      for_each_of_channel(x, c, [&](std::size_t j) {
        const double normal = (in[j] - mean) * inverse;
        out[j] = static_cast<float>(gain * inverse *
                                    (gradient[j] - dshift / count - normal * dgain / count));
      });
      const auto put = [&](void* memory, double value) {
        value *= parameter_alpha;
        if (parameter_beta != 0) value += parameter_beta * load(Type::f32, memory, i);
        store(Type::f32, memory, i, value);
      };
      put(dgain_at, dgain);
      put(dshift_at, dshift);
    }
    store_dense(dx, dx_at, out, alpha, beta);
  };
  return submit(handle, std::move(work));
}

cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t, const void* alpha, const void* beta,
    cudnnTensorDescriptor_t x_descriptor, const void* x, cudnnTensorDescriptor_t y_descriptor,
    void* y, cudnnTensorDescriptor_t channels, const void* gain, const void* shift, double factor,
    void* running_mean, void* running_variance, double epsilon, void* mean, void* inverse) {
  return cudnnBatchNormalizationForwardTrainingEx(
      handle, CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_OPS_BN, alpha, beta, x_descriptor, x,
      nullptr, nullptr, y_descriptor, y, channels, gain, shift, factor, running_mean,
      running_variance, epsilon, mean, inverse, nullptr, nullptr, 0, nullptr, 0);
}

cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t, const void* alpha, const void* beta,
    const void* parameter_alpha, const void* parameter_beta, cudnnTensorDescriptor_t x_descriptor,
    const void* x, cudnnTensorDescriptor_t dy_descriptor, const void* dy,
    cudnnTensorDescriptor_t dx_descriptor, void* dx, cudnnTensorDescriptor_t channels,
    const void* gain, void* dgain, void* dshift, double epsilon, const void* mean,
    const void* inverse) {
  return cudnnBatchNormalizationBackwardEx(
      handle, CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_OPS_BN, alpha, beta, parameter_alpha,
      parameter_beta, x_descriptor, x, nullptr, nullptr, dy_descriptor, dy, nullptr, nullptr,
      dx_descriptor, dx, channels, gain, nullptr, dgain, dshift, epsilon, mean, inverse, nullptr,
      nullptr, 0, nullptr, 0);
}

// --- softmax ---

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                                  cudnnSoftmaxMode_t mode, const void* alpha_at,
                                  cudnnTensorDescriptor_t x_descriptor, const void* x_at,
                                  const void* beta_at, cudnnTensorDescriptor_t y_descriptor,
                                  void* y_at) {
  const Call call("cudnnSoftmaxForward");
  STANDIN_BEGIN("softmax");
  STANDIN_FIND(x, tensors, x_descriptor);
  STANDIN_FIND(y, tensors, y_descriptor);
  if (!alike(x, y)) return inconsistent("x and y differ");
  const double alpha = scale(alpha_at), beta = scale(beta_at);
  Work work;
  work.operands = {reads(x_at, x.bytes(), "x"), result(y_at, y.bytes(), beta, "y")};
  work.flops = 5.0 * static_cast<double>(x.count());
  work.parameters =
      parameters(x, y, alpha, beta, static_cast<int>(algorithm), static_cast<int>(mode));
  work.memorable = true;
  work.compute = [=, x = x, y = y] {
    const std::vector<float> in = load_dense(x, x_at);
    std::vector<float> out(in.size());
    for_each_vector(x, mode, [&](std::int64_t first, std::int64_t stride, std::int64_t length) {
      const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(first + i * stride); };
      double largest = algorithm == CUDNN_SOFTMAX_FAST ? 0 : in[at(0)], sum = 0;
      if (algorithm != CUDNN_SOFTMAX_FAST)
        for (std::int64_t i = 1; i < length; ++i) largest = std::max<double>(largest, in[at(i)]);
      for (std::int64_t i = 0; i < length; ++i) sum += std::exp(in[at(i)] - largest);
      for (std::int64_t i = 0; i < length; ++i)
        out[at(i)] = static_cast<float>(algorithm == CUDNN_SOFTMAX_LOG
                                            ? in[at(i)] - largest - std::log(sum)
                                            : std::exp(in[at(i)] - largest) / sum);
    });
    store_dense(y, y_at, out, alpha, beta);
  };
  return submit(handle, std::move(work));
}

cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                                   cudnnSoftmaxMode_t mode, const void* alpha_at,
                                   cudnnTensorDescriptor_t y_descriptor, const void* y_at,
                                   cudnnTensorDescriptor_t dy_descriptor, const void* dy_at,
                                   const void* beta_at, cudnnTensorDescriptor_t dx_descriptor,
                                   void* dx_at) {
  const Call call("cudnnSoftmaxBackward");
  STANDIN_BEGIN("softmax");
  STANDIN_FIND(y, tensors, y_descriptor);
  STANDIN_FIND(dy, tensors, dy_descriptor);
  STANDIN_FIND(dx, tensors, dx_descriptor);
  if (!alike(y, dy) || !alike(y, dx)) return inconsistent("y, dy and dx differ");
  const double alpha = scale(alpha_at), beta = scale(beta_at);
  Work work;
  work.operands = {reads(y_at, y.bytes(), "y"), reads(dy_at, dy.bytes(), "dy"),
                   result(dx_at, dx.bytes(), beta, "dx")};
  work.flops = 4.0 * static_cast<double>(y.count());
  work.parameters =
      parameters(y, dy, dx, alpha, beta, static_cast<int>(algorithm), static_cast<int>(mode));
  work.memorable = true;
  work.compute = [=, y = y, dy = dy, dx = dx] {
    const std::vector<float> out = load_dense(y, y_at), gradient = load_dense(dy, dy_at);
    std::vector<float> in(out.size());
    for_each_vector(y, mode, [&](std::int64_t first, std::int64_t stride, std::int64_t length) {
      const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(first + i * stride); };
      double sum = 0;
      const bool log = algorithm == CUDNN_SOFTMAX_LOG;
      for (std::int64_t i = 0; i < length; ++i) sum += gradient[at(i)] * (log ? 1 : out[at(i)]);
      for (std::int64_t i = 0; i < length; ++i)
        in[at(i)] = static_cast<float>(log ? gradient[at(i)] - std::exp(out[at(i)]) * sum
                                           : out[at(i)] * (gradient[at(i)] - sum));
    });
    store_dense(dx, dx_at, in, alpha, beta);
  };
  return submit(handle, std::move(work));
}

// --- activation ---

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* descriptor) {
  const Call call("cudnnCreateActivationDescriptor", Call::prepares);
  *descriptor = layer_tables().activations.make();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t descriptor) {
  const Call call("cudnnDestroyActivationDescriptor", Call::prepares);
  return layer_tables().activations.release(descriptor) ? CUDNN_STATUS_SUCCESS
                                                        : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t descriptor,
                                           cudnnActivationMode_t mode, cudnnNanPropagation_t,
                                           double coefficient) {
  const Call call("cudnnSetActivationDescriptor", Call::prepares);
  const auto found = layer_tables().activations.find(descriptor);
  if (!found) return CUDNN_STATUS_BAD_PARAM;
  *found = {true, mode, coefficient};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle, cudnnActivationDescriptor_t descriptor,
                                     const void* alpha_at, cudnnTensorDescriptor_t x_descriptor,
                                     const void* x_at, const void* beta_at,
                                     cudnnTensorDescriptor_t y_descriptor, void* y_at) {
  const Call call("cudnnActivationForward");
  STANDIN_BEGIN("activation");
  STANDIN_FIND_LAYER(activation, activations, descriptor);
  STANDIN_FIND(x, tensors, x_descriptor);
  STANDIN_FIND(y, tensors, y_descriptor);
  if (!alike(x, y)) return inconsistent("x and y differ");
  const double alpha = scale(alpha_at), beta = scale(beta_at);
  Work work;
  work.operands = {reads(x_at, x.bytes(), "x"), result(y_at, y.bytes(), beta, "y")};
  work.flops = static_cast<double>(x.count());
  work.parameters =
      parameters(x, y, alpha, beta, static_cast<int>(activation.mode), activation.coefficient);
  work.memorable = true;
  work.compute = [=, activation = activation, x = x, y = y] {
    std::vector<float> values = load_dense(x, x_at);
    for (float& v : values)
      v = static_cast<float>(activated(activation.mode, activation.coefficient, v));
    store_dense(y, y_at, values, alpha, beta);
  };
  return submit(handle, std::move(work));
}

cudnnStatus_t cudnnActivationBackward(cudnnHandle_t handle, cudnnActivationDescriptor_t descriptor,
                                      const void* alpha_at, cudnnTensorDescriptor_t y_descriptor,
                                      const void* y_at, cudnnTensorDescriptor_t dy_descriptor,
                                      const void* dy_at, cudnnTensorDescriptor_t x_descriptor,
                                      const void* x_at, const void* beta_at,
                                      cudnnTensorDescriptor_t dx_descriptor, void* dx_at) {
  const Call call("cudnnActivationBackward");
  STANDIN_BEGIN("activation");
  STANDIN_FIND_LAYER(activation, activations, descriptor);
  STANDIN_FIND(y, tensors, y_descriptor);
  STANDIN_FIND(dy, tensors, dy_descriptor);
  STANDIN_FIND(x, tensors, x_descriptor);
  STANDIN_FIND(dx, tensors, dx_descriptor);
  if (!alike(y, dy) || !alike(y, x) || !alike(y, dx)) return inconsistent("tensors differ");
  const double alpha = scale(alpha_at), beta = scale(beta_at);
  Work work;
  work.operands = {reads(y_at, y.bytes(), "y"), reads(dy_at, dy.bytes(), "dy"),
                   reads(x_at, x.bytes(), "x"), result(dx_at, dx.bytes(), beta, "dx")};
  work.flops = 2.0 * static_cast<double>(x.count());
  work.parameters = parameters(y, dy, x, dx, alpha, beta, static_cast<int>(activation.mode),
                               activation.coefficient);
  work.memorable = true;
  work.compute = [=, activation = activation, y = y, dy = dy, x = x, dx = dx] {
    const std::vector<float> out = load_dense(y, y_at), in = load_dense(x, x_at);
    std::vector<float> gradient = load_dense(dy, dy_at);
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] *=
          static_cast<float>(derivative(activation.mode, activation.coefficient, in[i], out[i]));
    store_dense(dx, dx_at, gradient, alpha, beta);
  };
  return submit(handle, std::move(work));
}

// --- dropout ---

cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t* descriptor) {
  const Call call("cudnnCreateDropoutDescriptor", Call::prepares);
  *descriptor = layer_tables().dropouts.make();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t descriptor) {
  const Call call("cudnnDestroyDropoutDescriptor", Call::prepares);
  return layer_tables().dropouts.release(descriptor) ? CUDNN_STATUS_SUCCESS
                                                     : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t handle, std::size_t* bytes) {
  const Call call("cudnnDropoutGetStatesSize");
  if (!stream_of_handle(handle)) return CUDNN_STATUS_BAD_PARAM;
  *bytes = state_bytes;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDropoutGetReserveSpaceSize(cudnnTensorDescriptor_t descriptor,
                                              std::size_t* bytes) {
  const Call call("cudnnDropoutGetReserveSpaceSize");
  STANDIN_FIND(x, tensors, descriptor);
  *bytes = mask_bytes(x);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t handle,
                                        float probability, void* states, std::size_t bytes,
                                        unsigned long long seed) {
  const Call call("cudnnSetDropoutDescriptor", Call::prepares);
  STANDIN_BEGIN("dropout");
  const auto found = layer_tables().dropouts.find(descriptor);
  if (!found) return CUDNN_STATUS_BAD_PARAM;
  if (probability < 0 || probability > 1) return inconsistent("a probability outside [0, 1]");
  *found = {true, probability, states, seed};
  if (states == nullptr) return CUDNN_STATUS_SUCCESS;
  if (!check_size("states", bytes, state_bytes))
    return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "states too small");
  Work work;
  work.operands = {writes(states, state_bytes, "states")};
  work.compute = [=] { std::memset(states, 0, state_bytes); };
  return submit(handle, std::move(work));
}

cudnnStatus_t cudnnDropoutForward(cudnnHandle_t handle, cudnnDropoutDescriptor_t descriptor,
                                  cudnnTensorDescriptor_t x_descriptor, const void* x_at,
                                  cudnnTensorDescriptor_t y_descriptor, void* y_at, void* reserve,
                                  std::size_t reserve_bytes) {
  const Call call("cudnnDropoutForward");
  STANDIN_BEGIN("dropout");
  STANDIN_FIND_LAYER(dropout, dropouts, descriptor);
  STANDIN_FIND(x, tensors, x_descriptor);
  STANDIN_FIND(y, tensors, y_descriptor);
  if (!alike(x, y)) return inconsistent("x and y differ");
  if (dropout.states == nullptr) return inconsistent("dropout without states");
  if (!check_size("reserve", reserve_bytes, mask_bytes(x)))
    return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "reserve too small");
  Work work;
  work.operands = {reads(x_at, x.bytes(), "x"), writes(y_at, y.bytes(), "y"),
                   writes(reserve, reserve_bytes, "reserve"),
                   updates(dropout.states, state_bytes, "states")};
  work.bytes = static_cast<double>(x.bytes() + y.bytes() + reserve_bytes);
  work.compute = [=, dropout = dropout, x = x, y = y] {
    std::vector<float> values = load_dense(x, x_at);
    auto* step = static_cast<std::uint64_t*>(dropout.states);
    auto* mask = static_cast<unsigned char*>(reserve);
    std::memset(mask, 0, reserve_bytes);
    std::memcpy(mask, &mask_mark, 8);
    const float kept = 1 / (1 - dropout.probability);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool keep = uniform(dropout.seed, *step, i) >= dropout.probability;
      if (keep) mask[8 + i / 8] |= static_cast<unsigned char>(1 << i % 8);
      values[i] = keep ? values[i] * kept : 0;
    }
    ++*step;
    store_dense(y, y_at, values);
  };
  return submit(handle, std::move(work));
}

cudnnStatus_t cudnnDropoutBackward(cudnnHandle_t handle, cudnnDropoutDescriptor_t descriptor,
                                   cudnnTensorDescriptor_t dy_descriptor, const void* dy_at,
                                   cudnnTensorDescriptor_t dx_descriptor, void* dx_at,
                                   void* reserve, std::size_t reserve_bytes) {
  const Call call("cudnnDropoutBackward");
  STANDIN_BEGIN("dropout");
  STANDIN_FIND_LAYER(dropout, dropouts, descriptor);
  STANDIN_FIND(dy, tensors, dy_descriptor);
  STANDIN_FIND(dx, tensors, dx_descriptor);
  if (!alike(dx, dy)) return inconsistent("dx and dy differ");
  if (!check_size("reserve", reserve_bytes, mask_bytes(dx)))
    return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "reserve too small");
  Work work;
  work.operands = {reads(dy_at, dy.bytes(), "dy"), writes(dx_at, dx.bytes(), "dx"),
                   reads(reserve, reserve_bytes, "reserve")};
  work.parameters = parameters(dx, dy, dropout.probability);
  work.memorable = true;
  work.compute = [=, dropout = dropout, dx = dx, dy = dy] {
    std::vector<float> values = load_dense(dy, dy_at);
    const auto* mask = static_cast<const unsigned char*>(reserve);
    if (std::memcmp(mask, &mask_mark, 8) != 0)
      violation("reserve", "the reserve of dropout's gradient is not of a forward pass");
    const float kept = 1 / (1 - dropout.probability);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = (mask[8 + i / 8] >> i % 8 & 1) != 0 ? values[i] * kept : 0;
    store_dense(dx, dx_at, values);
  };
  return submit(handle, std::move(work));
}

}  // extern "C"
