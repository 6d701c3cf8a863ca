#include "cuda/module/cudnn_descriptors.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

namespace forecost::cuda {

int to_int(std::int64_t value) {
  if (value > std::numeric_limits<int>::max()) {
    throw Failure(Code::unsupported,
                  "cuDNN counts up to 2147483647, this layer to " + std::to_string(value));
  }
  return static_cast<int>(value);
}

cudnnDataType_t to_cudnn(Element element) {
  switch (element) {
    case Element::f32:
      return CUDNN_DATA_FLOAT;
    case Element::f16:
      return CUDNN_DATA_HALF;
    case Element::bf16:
      return CUDNN_DATA_BFLOAT16;
    default:
      break;
  }
  throw Failure(Code::failed, "cuDNN is used for floating-point elements only");
}

cudnnTensorFormat_t to_cudnn(Layout layout) {
  return layout == Layout::nhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
}

cudnnMathType_t math_of(const Context& context, Element element, bool tf32) {
  if (element != Element::f32) return CUDNN_TENSOR_OP_MATH;
  if (!tf32) return CUDNN_FMA_MATH;
  require_capability(context, 8, "TF32");
  return CUDNN_DEFAULT_MATH;  // of f32: tensor cores in TF32 are permitted
}

void describe_image(cudnnTensorDescriptor_t descriptor, Element element, Layout layout,
                    const Image& image) {
  check(cudnnSetTensor4dDescriptor(descriptor, to_cudnn(layout), to_cudnn(element), to_int(image.n),
                                   to_int(image.c), to_int(image.h), to_int(image.w)),
        "describing an image to cuDNN");
}

const char* name_of(Layout layout) { return layout == Layout::nhwc ? "nhwc" : "nchw"; }

const char* name_of(cudnnMathType_t math) {
  switch (math) {
    case CUDNN_DEFAULT_MATH:
      return "default";
    case CUDNN_TENSOR_OP_MATH:
      return "tensor_op";
    case CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION:
      return "tensor_op_conversion";
    case CUDNN_FMA_MATH:
      return "fma";
  }
  return "unknown_math";
}

bool is_refusal(cudnnStatus_t status) {
  const int category = CUDNN_STATUS_CATEGORY(static_cast<int>(status));
  return category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM;
}

std::string words_of(cudnnStatus_t status) {
  std::array<char, 256> more{};
  cudnnGetLastErrorString(more.data(), more.size());
  std::string words = cudnnGetErrorString(status);
  if (more[0] != '\0') words += std::string(" (") + more.data() + ")";
  std::ranges::replace(words, '\n', ' ');
  return words;
}

void require_capability(const Context& context, int major, const char* what) {
  if (context.properties.major >= major) return;
  throw Failure(Code::unsupported, std::string(what) + " needs compute capability " +
                                       std::to_string(major) + ".0, this device has " +
                                       std::to_string(context.properties.major) + "." +
                                       std::to_string(context.properties.minor));
}

void set_implementation(PlanInfo& info, const std::string& implementation) {
  std::snprintf(info.implementation, sizeof info.implementation, "%s", implementation.c_str());
}

}  // namespace forecost::cuda
