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

/// Whether cuDNN takes it so: padded alike on opposite sides, and no window cut off.
bool is_even(const Pooling& p) {
  const auto even = [](std::int64_t in, std::int64_t pad, std::int64_t kernel, std::int64_t stride,
                       std::int64_t out) { return (in + 2 * pad - kernel) / stride + 1 == out; };
  const Window& w = p.window;
  return even(p.in.h, w.pad_h, w.kernel_h, w.stride_h, p.out_h) &&
         even(p.in.w, w.pad_w, w.kernel_w, w.stride_w, p.out_w);
}

}  // namespace

std::unique_ptr<Plan> plan_pooling(Context& context, const Primitive& primitive) {
  if (!is_even(primitive.pooling)) return plan_own_pooling(context, primitive);
  return std::make_unique<PoolingPlan>(context, primitive.pooling);
}

}  // namespace forecost::cuda
