#pragma once

#include <cudnn.h>

#include <cstdint>
#include <string>

#include "cuda/module/context.hpp"

// What the plans of cuDNN share: its descriptors as owners, and its types for ours.

namespace forecost::cuda {

/// Owns a descriptor of cuDNN.
template <class Handle, auto create, auto destroy>
class Descriptor {
 public:
  Descriptor() { check(create(&handle_), "making a descriptor of cuDNN"); }
  ~Descriptor() { destroy(handle_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator Handle() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

using TensorDescriptor =
    Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDescriptor =
    Descriptor<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
               cudnnDestroyConvolutionDescriptor>;
using PoolingDescriptor = Descriptor<cudnnPoolingDescriptor_t, cudnnCreatePoolingDescriptor,
                                     cudnnDestroyPoolingDescriptor>;
using ActivationDescriptor =
    Descriptor<cudnnActivationDescriptor_t, cudnnCreateActivationDescriptor,
               cudnnDestroyActivationDescriptor>;
using DropoutDescriptor = Descriptor<cudnnDropoutDescriptor_t, cudnnCreateDropoutDescriptor,
                                     cudnnDestroyDropoutDescriptor>;
using RnnDescriptor =
    Descriptor<cudnnRNNDescriptor_t, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor>;
using RnnDataDescriptor = Descriptor<cudnnRNNDataDescriptor_t, cudnnCreateRNNDataDescriptor,
                                     cudnnDestroyRNNDataDescriptor>;

/// Has the library's handle from the time when it is planned: making one is no part of a run.
class CudnnPlan : public Plan {
 protected:
  explicit CudnnPlan(Context& context) : handle_(context.cudnn()) {}
  const cudnnHandle_t handle_;
};

/// Factors of result and destination: all our calls overwrite the destination.
inline constexpr float one = 1, zero = 0;

/// cuDNN counts in int. Throws Failure(unsupported) where `value` does not fit.
int to_int(std::int64_t value);

/// Throws Failure(failed) for integers.
cudnnDataType_t to_cudnn(Element element);
cudnnTensorFormat_t to_cudnn(Layout layout);
/// What products of these may use. tf32 counts of f32 only: without it, f32 stays f32.
/// Throws Failure(unsupported) where the device has no TF32.
cudnnMathType_t math_of(const Context& context, Element element, bool tf32);

void describe_image(cudnnTensorDescriptor_t descriptor, Element element, Layout layout,
                    const Image& image);

const char* name_of(Layout layout);
const char* name_of(cudnnMathType_t math);

/// Whether the library says that it does not do this, as opposed to having failed at it.
bool is_refusal(cudnnStatus_t status);
/// The library's words, in one line.
std::string words_of(cudnnStatus_t status);

/// Throws Failure(unsupported) for a device of a lower compute capability; `what` needs it.
void require_capability(const Context& context, int major, const char* what);

void set_implementation(PlanInfo& info, const std::string& implementation);

}  // namespace forecost::cuda
