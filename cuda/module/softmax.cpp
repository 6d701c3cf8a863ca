#include "cuda/module/cudnn_descriptors.hpp"

namespace forecost::cuda {
namespace {

class SoftmaxPlan final : public CudnnPlan {
 public:
  SoftmaxPlan(Context& context, const Softmax& p)
      : CudnnPlan(context), forward_(p.direction == Direction::forward) {
    describe_image(rows_, p.element, Layout::nchw, {p.rows, p.columns, 1, 1});
    set_implementation(info,
                       forward_ ? "cudnn:softmax_fwd:accurate" : "cudnn:softmax_bwd:accurate");
  }

  /// forward {x, y}; backward {y, dy, dx}
  void enqueue(Context& /*context*/, void* const* tensors, void* /*workspace*/) override {
    constexpr auto algorithm = CUDNN_SOFTMAX_ACCURATE;
    constexpr auto mode = CUDNN_SOFTMAX_MODE_INSTANCE;
    if (forward_) {
      check(cudnnSoftmaxForward(handle_, algorithm, mode, &one, rows_, tensors[0], &zero, rows_,
                                tensors[1]),
            info.implementation);
    } else {
      check(cudnnSoftmaxBackward(handle_, algorithm, mode, &one, rows_, tensors[0], rows_,
                                 tensors[1], &zero, rows_, tensors[2]),
            info.implementation);
    }
  }

 private:
  TensorDescriptor rows_;
  bool forward_;
};

}  // namespace

std::unique_ptr<Plan> plan_softmax(Context& context, const Primitive& primitive) {
  // cuDNN has no mask.
  if (primitive.softmax.causal_queries != 0) return plan_own_softmax(context, primitive);
  return std::make_unique<SoftmaxPlan>(context, primitive.softmax);
}

}  // namespace forecost::cuda
