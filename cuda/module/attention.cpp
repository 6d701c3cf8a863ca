#include <utility>

#include "cuda/module/attention_graph.hpp"
#include "cuda/module/cudnn_descriptors.hpp"

namespace forecost::cuda {
namespace {

class AttentionPlan final : public CudnnPlan {
 public:
  AttentionPlan(Context& context, OperationGraph graph, bool zero_scratch, const char* name)
      : CudnnPlan(context), graph_(handle_, std::move(graph), name), zero_scratch_(zero_scratch) {
    info.workspace_bytes = graph_.workspace_bytes();
    info.nondeterministic = graph_.nondeterministic() ? 1 : 0;
    set_implementation(info,
                       std::string("cudnn:") + name + ":engine_" + std::to_string(graph_.engine()));
  }

  void prepare(Context& /*context*/, void* const* tensors, void* workspace) override {
    graph_.bind(tensors, workspace);
  }

  void enqueue(Context& context, void* const* tensors, void* workspace) override {
    if (zero_scratch_) {
      check(cudaMemsetAsync(static_cast<std::byte*>(workspace) + graph_.scratch_offset(), 0,
                            static_cast<std::size_t>(graph_.scratch_bytes()), context.stream),
            "zeroing sums of attention");
    }
    graph_.enqueue(handle_, tensors, workspace);
  }

 private:
  CompiledGraph graph_;
  bool zero_scratch_;
};

}  // namespace

std::unique_ptr<Plan> plan_attention(Context& context, const Primitive& primitive) {
  require_capability(context, 8, "fused attention");
  const std::size_t version = cudnnGetVersion();
  const bool forward = primitive.attention.direction == Direction::forward;
  // Before 9.6 the engines of backward add to sums that are zero.
  return std::make_unique<AttentionPlan>(context, attention_graph(primitive.attention, version),
                                         !forward && version < 90600,
                                         forward ? "flash_attention_fwd" : "flash_attention_bwd");
}

}  // namespace forecost::cuda
