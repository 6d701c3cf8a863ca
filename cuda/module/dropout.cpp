#include "cuda/module/cudnn_descriptors.hpp"
#include "cuda/module/handles.hpp"

namespace forecost::cuda {
namespace {

std::size_t bytes_of_states(cudnnHandle_t handle) {
  std::size_t bytes = 0;
  check(cudnnDropoutGetStatesSize(handle, &bytes), "asking cuDNN for the states of dropout");
  return bytes;
}

/// The generators' states live with the plan: each forward run draws another mask, the first one of
/// a sequence always the same.
class DropoutPlan final : public CudnnPlan {
 public:
  DropoutPlan(Context& context, const Dropout& p)
      : CudnnPlan(context),
        forward_(p.direction == Direction::forward),
        probability_(static_cast<float>(p.probability)),
        seed_(p.seed),
        states_bytes_(bytes_of_states(handle_)),
        states_(device_memory(static_cast<std::int64_t>(states_bytes_))) {
    describe_image(all_, p.element, Layout::nchw, {1, 1, 1, p.count});
    seed();
    std::size_t bytes = 0;
    check(cudnnDropoutGetReserveSpaceSize(all_, &bytes), "asking cuDNN for the reserve of dropout");
    info.reserve_bytes = static_cast<std::int64_t>(bytes);
    set_implementation(info, forward_ ? "cudnn:dropout_fwd" : "cudnn:dropout_bwd");
  }

  void prepare(Context& /*context*/, void* const* /*tensors*/, void* /*workspace*/) override {
    if (forward_) seed();
  }

  /// forward {x, y, reserve}; backward {dy, dx, reserve}
  void enqueue(Context& /*context*/, void* const* tensors, void* /*workspace*/) override {
    const auto call = forward_ ? cudnnDropoutForward : cudnnDropoutBackward;
    check(call(handle_, dropout_, all_, tensors[0], all_, tensors[1], tensors[2],
               static_cast<std::size_t>(info.reserve_bytes)),
          info.implementation);
  }

 private:
  void seed() {
    check(cudnnSetDropoutDescriptor(dropout_, handle_, probability_, states_.get(), states_bytes_,
                                    seed_),
          "seeding cuDNN's dropout");
  }

  bool forward_;
  float probability_;
  std::uint64_t seed_;
  std::size_t states_bytes_;
  DeviceMemory states_;
  TensorDescriptor all_;
  DropoutDescriptor dropout_;
};

}  // namespace

std::unique_ptr<Plan> plan_dropout(Context& context, const Primitive& primitive) {
  return std::make_unique<DropoutPlan>(context, primitive.dropout);
}

}  // namespace forecost::cuda
