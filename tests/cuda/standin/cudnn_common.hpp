#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/cuda/standin/numbers.hpp"
#include "tests/cuda/standin/state.hpp"
#include "tests/cuda/standin/work.hpp"

// cuDNN's handles and descriptors, and what its calls share.

namespace forecost::standin::cudnn {

struct Tensor {
  bool set = false;
  Type type = Type::f32;
  std::vector<std::int64_t> dims, strides;

  std::int64_t count() const;
  /// From the first to behind the last element.
  std::size_t bytes() const;
  bool operator==(const Tensor& other) const = default;
};

struct Filter {
  bool set = false;
  Type type = Type::f32;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  std::array<std::int64_t, 4> dims{};  ///< k, c, r, s, whatever the format
  Tensor tensor() const;
};

struct Convolution {
  bool set = false;
  int pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int groups = 1;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

struct Library {
  cudaStream_t stream = nullptr;
};

struct Tables {
  Handles<cudnnHandle_t, Library> handles{"cuDNN handle"};
  Handles<cudnnTensorDescriptor_t, Tensor> tensors{"tensor descriptor"};
  Handles<cudnnFilterDescriptor_t, Filter> filters{"filter descriptor"};
  Handles<cudnnConvolutionDescriptor_t, Convolution> convolutions{"convolution descriptor"};
};
Tables& tables();

/// `none` for those that the stand-in does not compute with.
Type type_of(cudnnDataType_t type);

/// Remembers the words for cudnnGetLastErrorString. `inconsistent` is noted as a violation too.
cudnnStatus_t refuse(cudnnStatus_t status, const std::string& words);
cudnnStatus_t inconsistent(const std::string& words);
const std::string& last_words();

/// The stream of a handle; nothing where it does not live.
std::optional<cudaStream_t> stream_of_handle(cudnnHandle_t handle);

/// As cuDNN answers what the runtime answered.
cudnnStatus_t status_of(cudaError_t error);

/// Submits to the handle's stream.
cudnnStatus_t submit(cudnnHandle_t handle, Work work);

/// alpha or beta: f32 for all types but f64, which the stand-in does not compute.
inline double scale(const void* factor) { return *static_cast<const float*>(factor); }

/// Dense, in the order of the dimensions, whatever the strides.
std::vector<float> load_dense(const Tensor& tensor, const void* memory);
/// memory = alpha values + beta memory.
void store_dense(const Tensor& tensor, void* memory, const std::vector<float>& values,
                 double alpha = 1, double beta = 0);

/// What adding up in another order each time does to the last bits of a result.
void disturb(const Tensor& tensor, void* memory);

/// An output: read too where beta is not 0.
inline Operand result(void* memory, std::size_t bytes, double beta, const char* name) {
  return {memory, bytes, beta == 0 ? Access::write : Access::update, name};
}

/// For Work::parameters.
template <class... Values>
std::string parameters(const Values&... values) {
  std::string text;
  const auto add = [&](const auto& value) {
    using Value = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, Tensor>) {
      text += std::to_string(static_cast<int>(value.type)) + ':';
      for (const std::int64_t d : value.dims) text += std::to_string(d) + ',';
      for (const std::int64_t s : value.strides) text += std::to_string(s) + ',';
    } else {
      text += std::to_string(value) + ';';
    }
  };
  (add(values), ...);
  return text;
}

/// Finds a descriptor of a table that was also set; else answers for the call.
#define STANDIN_FIND(name, table, descriptor)                              \
  const auto name##_found = tables().table.find(descriptor);               \
  if (!name##_found) return CUDNN_STATUS_BAD_PARAM;                        \
  if (!name##_found->set) return inconsistent(#descriptor " was not set"); \
  const auto& name = *name##_found

}  // namespace forecost::standin::cudnn
