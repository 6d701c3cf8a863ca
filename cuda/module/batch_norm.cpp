#include "cuda/module/cudnn_descriptors.hpp"

namespace forecost::cuda {
namespace {

constexpr auto only_norm = CUDNN_BATCHNORM_OPS_BN;

/// As frameworks choose: the persistent kernels of cuDNN for nhwc while training.
cudnnBatchNormMode_t mode_of(const BatchNorm& p) {
  return p.training != 0 && p.layout == Layout::nhwc ? CUDNN_BATCHNORM_SPATIAL_PERSISTENT
                                                     : CUDNN_BATCHNORM_SPATIAL;
}

class BatchNormPlan final : public CudnnPlan {
 public:
  BatchNormPlan(Context& context, const BatchNorm& p)
      : CudnnPlan(context),
        forward_(p.direction == Direction::forward),
        training_(p.training != 0),
        mode_(mode_of(p)),
        epsilon_(p.epsilon) {
    describe_image(x_, p.element, p.layout, p.image);
    check(cudnnDeriveBNTensorDescriptor(channels_, x_, mode_),
          "describing the parameters of a batch norm to cuDNN");
    if (training_) ask_sizes();
    set_implementation(info,
                       std::string("cudnn:batch_norm_") +
                           (!forward_   ? "bwd:"
                            : training_ ? "fwd_training:"
                                        : "fwd_inference:") +
                           (mode_ == CUDNN_BATCHNORM_SPATIAL ? "spatial:" : "spatial_persistent:") +
                           name_of(p.layout));
  }

  void enqueue(Context& /*context*/, void* const* tensors, void* workspace) override {
    if (!training_) {
      check(cudnnBatchNormalizationForwardInference(handle_, mode_, &one, &zero, x_, tensors[0], x_,
                                                    tensors[5], channels_, tensors[1], tensors[2],
                                                    tensors[3], tensors[4], epsilon_),
            info.implementation);
      return;
    }
    void* const reserve = tensors[forward_ ? 6 : 8];
    if (info.reserve_bytes > 0 && reserve == nullptr) {
      throw Failure(Code::failed, "a batch norm without its reserve");
    }
    const auto workspace_bytes = static_cast<std::size_t>(info.workspace_bytes),
               reserve_bytes = static_cast<std::size_t>(info.reserve_bytes);
    // Moving averages are no part of the layer's forward pass; without activation, no z, y or
    // shift.
    if (forward_) {
      check(
          cudnnBatchNormalizationForwardTrainingEx(
              handle_, mode_, only_norm, &one, &zero, x_, tensors[0], nullptr, nullptr, x_,
              tensors[3], channels_, tensors[1], tensors[2], 1, nullptr, nullptr, epsilon_,
              tensors[4], tensors[5], nullptr, workspace, workspace_bytes, reserve, reserve_bytes),
          info.implementation);
    } else {
      check(cudnnBatchNormalizationBackwardEx(
                handle_, mode_, only_norm, &one, &zero, &one, &zero, x_, tensors[0], nullptr,
                nullptr, x_, tensors[1], nullptr, nullptr, x_, tensors[5], channels_, tensors[2],
                nullptr, tensors[6], tensors[7], epsilon_, tensors[3], tensors[4], nullptr,
                workspace, workspace_bytes, reserve, reserve_bytes),
            info.implementation);
    }
  }

 private:
  void ask_sizes() {
    std::size_t workspace = 0, reserve = 0;
    check(forward_ ? cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
                         handle_, mode_, only_norm, x_, nullptr, x_, channels_, nullptr, &workspace)
                   : cudnnGetBatchNormalizationBackwardExWorkspaceSize(
                         handle_, mode_, only_norm, x_, nullptr, x_, nullptr, x_, channels_,
                         nullptr, &workspace),
          "asking cuDNN for the workspace of a batch norm");
    check(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle_, mode_, only_norm, nullptr,
                                                               x_, &reserve),
          "asking cuDNN for the reserve of a batch norm");
    info.workspace_bytes = static_cast<std::int64_t>(workspace);
    info.reserve_bytes = static_cast<std::int64_t>(reserve);
  }

  bool forward_, training_;
  cudnnBatchNormMode_t mode_;
  double epsilon_;
  TensorDescriptor x_, channels_;
};

}  // namespace

std::unique_ptr<Plan> plan_batch_norm(Context& context, const Primitive& primitive) {
  const BatchNorm& p = primitive.batch_norm;
  if (p.direction != Direction::forward && p.training == 0) {
    return plan_own_batch_norm(context, primitive);
  }
  return std::make_unique<BatchNormPlan>(context, p);
}

}  // namespace forecost::cuda
