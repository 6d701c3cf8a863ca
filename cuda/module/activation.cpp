#include "cuda/module/cudnn_descriptors.hpp"

namespace forecost::cuda {
namespace {

class ActivationPlan final : public CudnnPlan {
 public:
  ActivationPlan(Context& context, const Activation& p, cudnnActivationMode_t mode,
                 const char* name)
      : CudnnPlan(context), forward_(p.direction == Direction::forward) {
    describe_image(all_, p.element, Layout::nchw, {1, 1, 1, p.count});
    check(cudnnSetActivationDescriptor(activation_, mode, CUDNN_PROPAGATE_NAN, 0),
          "describing an activation to cuDNN");
    set_implementation(info, std::string("cudnn:") + name + (forward_ ? "_fwd" : "_bwd"));
  }

  /// forward {x, y}; backward {x or nullptr, y, dy, dx}
  void enqueue(Context& /*context*/, void* const* tensors, void* /*workspace*/) override {
    if (forward_) {
      check(cudnnActivationForward(handle_, activation_, &one, all_, tensors[0], &zero, all_,
                                   tensors[1]),
            info.implementation);
      return;
    }
    // The gradients of these functions are of y; the interface wants an x all the same, and that of
    // an activation in place is y.
    void* const x = tensors[0] != nullptr ? tensors[0] : tensors[1];
    check(cudnnActivationBackward(handle_, activation_, &one, all_, tensors[1], all_, tensors[2],
                                  all_, x, &zero, all_, tensors[3]),
          info.implementation);
  }

 private:
  TensorDescriptor all_;
  ActivationDescriptor activation_;
  bool forward_;
};

}  // namespace

std::unique_ptr<Plan> plan_activation(Context& context, const Primitive& primitive) {
  const Activation& p = primitive.activation;
  switch (p.function) {
    case Function::relu:
      return std::make_unique<ActivationPlan>(context, p, CUDNN_ACTIVATION_RELU, "relu");
    case Function::tanh:
      return std::make_unique<ActivationPlan>(context, p, CUDNN_ACTIVATION_TANH, "tanh");
    case Function::sigmoid:
      return std::make_unique<ActivationPlan>(context, p, CUDNN_ACTIVATION_SIGMOID, "sigmoid");
    case Function::gelu:
    case Function::silu:
      return plan_own_activation(context, primitive);
    case Function::none:
      break;
  }
  throw Failure(Code::failed, "an activation without a function");
}

}  // namespace forecost::cuda
