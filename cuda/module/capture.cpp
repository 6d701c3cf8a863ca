#include "cuda/module/capture.hpp"

#include <string>

namespace forecost::cuda {

GraphOwner::GraphOwner(Context& context) : all_(context.graph_owners) { all_.push_back(this); }
GraphOwner::~GraphOwner() { std::erase(all_, this); }

GraphExec capture_graph(Context& context, const std::function<void()>& enqueue) {
  // Relaxed: a library may load a kernel at its first use, which the stricter modes forbid.
  check(cudaStreamBeginCapture(context.stream, cudaStreamCaptureModeRelaxed),
        "cudaStreamBeginCapture");
  bool whole = true;
  Code code = Code::ok;
  std::string reason;
  try {
    enqueue();
  } catch (const Failure& failure) {
    whole = false;
    code = failure.code();
    reason = failure.what();
  }
  cudaGraph_t captured = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(context.stream, &captured);
  const Graph graph(captured);
  if (code == Code::poisoned || code == Code::out_of_memory || code == Code::peer_lost) {
    throw Failure(code, reason);
  }
  if (whole && ended == cudaSuccess && graph != nullptr) {
    cudaGraphExec_t instance = nullptr;
    const cudaError_t made = cudaGraphInstantiate(&instance, graph.get(), 0);
    GraphExec executable(instance);
    if (made == cudaErrorMemoryAllocation) check(made, "cudaGraphInstantiate");
    if (made == cudaSuccess) {
      check(cudaGraphUpload(executable.get(), context.stream), "cudaGraphUpload");
      context.wait();
      return executable;
    }
  }
  cudaGetLastError();  // the capture's, which has been dealt with
  context.wait();      // throws one that sticks
  return nullptr;
}

}  // namespace forecost::cuda
