#include "tests/cuda/standin/cudnn_common.hpp"

#include <algorithm>
#include <cstdio>

namespace forecost::standin::cudnn {
namespace {

std::string& words_of_last_refusal() {
  static auto* words = new std::string;
  return *words;
}

}  // namespace

std::int64_t Tensor::count() const {
  std::int64_t product = 1;
  for (const std::int64_t d : dims) product *= d;
  return product;
}

std::size_t Tensor::bytes() const {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) last += (dims[i] - 1) * strides[i];
  return static_cast<std::size_t>(last + 1) * size_of(type);
}

Tensor Filter::tensor() const {
  const auto [k, c, r, s] = dims;
  Tensor tensor{true, type, {k, c, r, s}, {c * r * s, r * s, s, 1}};
  if (format == CUDNN_TENSOR_NHWC) tensor.strides = {r * s * c, 1, s * c, c};
  return tensor;
}

Tables& tables() {
  static auto* all = new Tables;
  return *all;
}

Type type_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return Type::f32;
    case CUDNN_DATA_HALF:
      return Type::f16;
    case CUDNN_DATA_BFLOAT16:
      return Type::bf16;
    case CUDNN_DATA_DOUBLE:
      return Type::f64;
    case CUDNN_DATA_INT32:
      return Type::i32;
    case CUDNN_DATA_INT8:
      return Type::i8;
    default:
      return Type::none;
  }
}

cudnnStatus_t refuse(cudnnStatus_t status, const std::string& words) {
  words_of_last_refusal() = words;
  return status;
}

cudnnStatus_t inconsistent(const std::string& words) {
  violation("descriptor", std::string(state().call) + ": " + words);
  return refuse(CUDNN_STATUS_BAD_PARAM, words);
}

const std::string& last_words() { return words_of_last_refusal(); }

std::optional<cudaStream_t> stream_of_handle(cudnnHandle_t handle) {
  const auto found = tables().handles.find(handle);
  if (!found) return std::nullopt;
  return found->stream;
}

cudnnStatus_t status_of(cudaError_t error) {
  if (error == cudaSuccess) return CUDNN_STATUS_SUCCESS;
  answer(error);
  return refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART, cudaGetErrorString(error));
}

cudnnStatus_t submit(cudnnHandle_t handle, Work work) {
  const auto stream = stream_of_handle(handle);
  if (!stream) return CUDNN_STATUS_BAD_PARAM;
  if (work.name.empty()) work.name = state().call;
  return status_of(standin::submit(*stream, std::move(work)));
}

namespace {

/// Calls visit(place in memory) for each element, the last dimension running fastest.
template <class Visit>
void for_each_element(const Tensor& tensor, Visit visit) {
  const std::size_t rank = tensor.dims.size();
  std::vector<std::int64_t> index(rank, 0);
  const std::int64_t count = tensor.count();
  std::int64_t place = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    visit(static_cast<std::size_t>(i), static_cast<std::size_t>(place));
    for (std::size_t d = rank; d-- > 0;) {
      place += tensor.strides[d];
      if (++index[d] < tensor.dims[d]) break;
      place -= tensor.strides[d] * tensor.dims[d];
      index[d] = 0;
    }
  }
}

}  // namespace

std::vector<float> load_dense(const Tensor& tensor, const void* memory) {
  std::vector<float> values(static_cast<std::size_t>(tensor.count()));
  for_each_element(tensor, [&](std::size_t i, std::size_t place) {
    values[i] = load(tensor.type, memory, place);
  });
  return values;
}

void store_dense(const Tensor& tensor, void* memory, const std::vector<float>& values, double alpha,
                 double beta) {
  for_each_element(tensor, [&](std::size_t i, std::size_t place) {
    double value = alpha * values[i];
    if (beta != 0) value += beta * load(tensor.type, memory, place);
    store(tensor.type, memory, place, value);
  });
}

void disturb(const Tensor& tensor, void* memory) {
  static int runs = 0;
  const double unit = tensor.type == Type::f32 ? 1e-6 : tensor.type == Type::f16 ? 4e-4 : 3e-3;
  const double factor = 1 + unit * (++runs * 7 % 11 - 5) / 5;
  std::vector<float> values = load_dense(tensor, memory);
  // Every fourth: the errors of elements are not one.
  for (std::size_t i = 0; i < values.size(); i += 4)
    values[i] = static_cast<float>(values[i] * factor);
  store_dense(tensor, memory, values);
}

}  // namespace forecost::standin::cudnn

using namespace forecost::standin;
using namespace forecost::standin::cudnn;

namespace {

cudnnStatus_t done() { return CUDNN_STATUS_SUCCESS; }

cudnnStatus_t set_tensor(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type,
                         std::vector<std::int64_t> dims, std::vector<std::int64_t> strides) {
  const auto tensor = tables().tensors.find(descriptor);
  if (!tensor) return CUDNN_STATUS_BAD_PARAM;
  if (type_of(type) == Type::none) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "data type");
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (dims[i] < 1 || strides[i] < 1) return inconsistent("a dimension or stride below 1");
  // As cuDNN: no two elements in one place.
  std::vector<std::size_t> order(dims.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
  std::int64_t reach = 0;
  for (const std::size_t d : order) {
    if (dims[d] == 1) continue;
    if (strides[d] <= reach) return inconsistent("strides that overlap");
    reach += (dims[d] - 1) * strides[d];
  }
  *tensor = {true, type_of(type), std::move(dims), std::move(strides)};
  return done();
}

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() { return CUDNN_VERSION; }
std::size_t cudnnGetCudartVersion() { return CUDART_VERSION; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  const Call call("cudnnCreate", Call::prepares);
  State& all = state();
  if (all.config.driver_version == 0) return CUDNN_STATUS_NOT_INITIALIZED;
  if (all.visible.empty()) return CUDNN_STATUS_NOT_INITIALIZED;
  if (all.sticky != cudaSuccess) return status_of(all.sticky);
  *handle = tables().handles.make();
  return done();
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  const Call call("cudnnDestroy", Call::prepares);
  return tables().handles.release(handle) ? done() : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  const Call call("cudnnSetStream", Call::prepares);
  const auto library = tables().handles.find(handle);
  if (!library || stream_of(stream) == nullptr) return CUDNN_STATUS_BAD_PARAM;
  library->stream = stream;
  return done();
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  const Call call("cudnnGetStream");
  const auto library = tables().handles.find(handle);
  if (!library) return CUDNN_STATUS_BAD_PARAM;
  *stream = library->stream;
  return done();
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED_CUDART:
      return "CUDNN_STATUS_EXECUTION_FAILED_CUDART";
    default:
      return "CUDNN_STATUS_OTHER";
  }
}

void cudnnGetLastErrorString(char* message, std::size_t size) {
  const Call call("cudnnGetLastErrorString");
  std::snprintf(message, size, "%s", last_words().c_str());
}

// --- tensors ---

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* descriptor) {
  const Call call("cudnnCreateTensorDescriptor", Call::prepares);
  *descriptor = tables().tensors.make();
  return done();
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor) {
  const Call call("cudnnDestroyTensorDescriptor", Call::prepares);
  return tables().tensors.release(descriptor) ? done() : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type,
                                           int n, int c, int h, int w, int n_stride, int c_stride,
                                           int h_stride, int w_stride) {
  const Call call("cudnnSetTensor4dDescriptorEx", Call::prepares);
  return set_tensor(descriptor, type, {n, c, h, w}, {n_stride, c_stride, h_stride, w_stride});
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor,
                                         cudnnTensorFormat_t format, cudnnDataType_t type, int n,
                                         int c, int h, int w) {
  const Call call("cudnnSetTensor4dDescriptor", Call::prepares);
  const std::int64_t C = c, H = h, W = w;
  if (C * H * W * n > INT32_MAX)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "more than 2^31 - 1 elements");
  if (format == CUDNN_TENSOR_NHWC)
    return set_tensor(descriptor, type, {n, C, H, W}, {C * H * W, 1, W * C, C});
  if (format != CUDNN_TENSOR_NCHW) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "tensor format");
  return set_tensor(descriptor, type, {n, C, H, W}, {C * H * W, H * W, W, 1});
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type,
                                         int rank, const int* dims, const int* strides) {
  const Call call("cudnnSetTensorNdDescriptor", Call::prepares);
  return set_tensor(descriptor, type, {dims, dims + rank}, {strides, strides + rank});
}

cudnnStatus_t cudnnGetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor, cudnnDataType_t* type,
                                         int* n, int* c, int* h, int* w, int* n_stride,
                                         int* c_stride, int* h_stride, int* w_stride) {
  const Call call("cudnnGetTensor4dDescriptor");
  STANDIN_FIND(tensor, tensors, descriptor);
  if (tensor.dims.size() != 4) return inconsistent("not of 4 dimensions");
  *type = tensor.type == Type::f32    ? CUDNN_DATA_FLOAT
          : tensor.type == Type::f16  ? CUDNN_DATA_HALF
          : tensor.type == Type::bf16 ? CUDNN_DATA_BFLOAT16
                                      : CUDNN_DATA_DOUBLE;
  int* const dims[] = {n, c, h, w};
  int* const strides[] = {n_stride, c_stride, h_stride, w_stride};
  for (std::size_t i = 0; i < 4; ++i) {
    *dims[i] = static_cast<int>(tensor.dims[i]);
    *strides[i] = static_cast<int>(tensor.strides[i]);
  }
  return done();
}

cudnnStatus_t cudnnGetTensorNdDescriptor(cudnnTensorDescriptor_t descriptor, int room,
                                         cudnnDataType_t* type, int* rank, int* dims,
                                         int* strides) {
  const Call call("cudnnGetTensorNdDescriptor");
  STANDIN_FIND(tensor, tensors, descriptor);
  *type = tensor.type == Type::f32    ? CUDNN_DATA_FLOAT
          : tensor.type == Type::f16  ? CUDNN_DATA_HALF
          : tensor.type == Type::bf16 ? CUDNN_DATA_BFLOAT16
                                      : CUDNN_DATA_DOUBLE;
  *rank = static_cast<int>(tensor.dims.size());
  for (int i = 0; i < room && i < *rank; ++i) {
    dims[i] = static_cast<int>(tensor.dims[i]);
    strides[i] = static_cast<int>(tensor.strides[i]);
  }
  return done();
}

cudnnStatus_t cudnnGetTensorSizeInBytes(cudnnTensorDescriptor_t descriptor, std::size_t* bytes) {
  const Call call("cudnnGetTensorSizeInBytes");
  STANDIN_FIND(tensor, tensors, descriptor);
  *bytes = tensor.bytes();
  return done();
}

// --- filters ---

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* descriptor) {
  const Call call("cudnnCreateFilterDescriptor", Call::prepares);
  *descriptor = tables().filters.make();
  return done();
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor) {
  const Call call("cudnnDestroyFilterDescriptor", Call::prepares);
  return tables().filters.release(descriptor) ? done() : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  const Call call("cudnnSetFilter4dDescriptor", Call::prepares);
  const auto filter = tables().filters.find(descriptor);
  if (!filter) return CUDNN_STATUS_BAD_PARAM;
  if (k < 1 || c < 1 || h < 1 || w < 1) return inconsistent("a dimension below 1");
  *filter = {true, type_of(type), format, {k, c, h, w}};
  return done();
}
cudnnStatus_t cudnnGetFilterSizeInBytes(cudnnFilterDescriptor_t descriptor, std::size_t* bytes) {
  const Call call("cudnnGetFilterSizeInBytes");
  STANDIN_FIND(filter, filters, descriptor);
  *bytes = filter.tensor().bytes();
  return done();
}

}  // extern "C"
