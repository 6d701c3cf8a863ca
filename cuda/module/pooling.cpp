#include "cuda/module/cudnn_descriptors.hpp"

namespace forecost::cuda {
namespace {

class PoolingPlan final : public CudnnPlan {
 public:
  PoolingPlan(Context& context, const Pooling& p)
      : CudnnPlan(context), forward_(p.direction == Direction::forward) {
    const Window& w = p.window;
    describe_image(x_, p.element, p.layout, p.in);
    describe_image(y_, p.element, p.layout, {p.in.n, p.in.c, p.out_h, p.out_w});
    check(cudnnSetPooling2dDescriptor(
              pooling_,
              p.maximum != 0 ? CUDNN_POOLING_MAX : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
              CUDNN_NOT_PROPAGATE_NAN, to_int(w.kernel_h), to_int(w.kernel_w), to_int(w.pad_h),
              to_int(w.pad_w), to_int(w.stride_h), to_int(w.stride_w)),
          "describing a pooling to cuDNN");
    int n = 0, c = 0, out_h = 0, out_w = 0;
    check(cudnnGetPooling2dForwardOutputDim(pooling_, x_, &n, &c, &out_h, &out_w),
          "asking cuDNN for the output of a pooling");
    if (out_h != p.out_h || out_w != p.out_w) {
      throw Failure(Code::unsupported, "a pooling to " + std::to_string(p.out_h) + " x " +
                                           std::to_string(p.out_w) + " is one to " +
                                           std::to_string(out_h) + " x " + std::to_string(out_w) +
                                           " for cuDNN");
    }
    set_implementation(info, std::string("cudnn:") + (p.maximum != 0 ? "max" : "average") +
                                 (forward_ ? "_pooling_fwd:" : "_pooling_bwd:") +
                                 name_of(p.layout));
    // cuDNN's documentation, "Reproducibility (determinism)".
    info.nondeterministic = !forward_ && p.maximum != 0 ? 1 : 0;
  }

  /// forward {x, y}; backward {x, y, dy, dx}
  void enqueue(Context& /*context*/, void* const* tensors, void* /*workspace*/) override {
    if (forward_) {
      check(cudnnPoolingForward(handle_, pooling_, &one, x_, tensors[0], &zero, y_, tensors[1]),
            info.implementation);
    } else {
      check(cudnnPoolingBackward(handle_, pooling_, &one, y_, tensors[1], y_, tensors[2], x_,
                                 tensors[0], &zero, x_, tensors[3]),
            info.implementation);
    }
  }

 private:
  TensorDescriptor x_, y_;
  PoolingDescriptor pooling_;
  bool forward_;
};

}  // namespace

std::unique_ptr<Plan> plan_pooling(Context& context, const Primitive& primitive) {
  return std::make_unique<PoolingPlan>(context, primitive.pooling);
}

}  // namespace forecost::cuda
