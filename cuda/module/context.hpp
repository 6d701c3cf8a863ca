#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/module/handles.hpp"
#include "cuda/module_interface.hpp"

// What all of the module is made of. Inside it exceptions are the way of errors; interface.cpp
// turns them into an Outcome at the boundary.

namespace forecost::cuda {

class Failure : public std::runtime_error {
 public:
  Failure(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Code code() const noexcept { return code_; }

 private:
  Code code_;
};

/// Throws Failure that names `what`: out_of_memory, unsupported, poisoned (an error that sticks) or
/// failed.
void check(cudaError_t status, const char* what);
void check(cudnnStatus_t status, const char* what);
void check(cublasStatus_t status, const char* what);

/// cuBLASLt, opened when it is first needed: it costs 350 ms and 158 MiB, and a sweep of
/// convolutions does without. The members are the library's functions.
struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algo_get;
  decltype(&cublasLtMatmulAlgoCapGetAttribute) algo_cap;
};
/// Throws Failure where it cannot be opened.
const CublasLt& cublas_lt();

class GraphOwner;

/// An opened device: its stream, on which everything runs, and the libraries' handles.
struct Context {
  explicit Context(int device_index);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Makes the device the calling thread's.
  void use();
  /// Until the stream is idle, or has come to the event. Throws Failure, also of what ran on it,
  /// and Code::peer_lost where a communicator waits in vain.
  void wait();
  void wait(const Event& event);

  /// Bound to the stream, cuBLASLt's by each call of it; made when first asked for.
  cudnnHandle_t cudnn();
  cublasLtHandle_t cublas();

  int device = 0;
  cudaStream_t stream = nullptr;
  cudaDeviceProp properties{};
  Scratch flushed, partial_sums;             ///< of flush and of sum
  std::vector<Communicator*> communicators;  ///< that are open: whoever waits watches them
  std::vector<GraphOwner*> graph_owners;

 private:
  Stream owned_stream_;
  cudnnHandle_t cudnn_ = nullptr;
  cublasLtHandle_t cublas_ = nullptr;
};

/// A primitive with its algorithm chosen: descriptors, and what a launch needs.
struct Plan {
  Plan() = default;
  virtual ~Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// Makes what a launch on these operands needs beside them, outside of any timed window: called
  /// for each step when a sequence is prepared. What a run carries over to the next one (the state
  /// of a generator) begins anew. Throws Failure.
  virtual void prepare(Context& /*context*/, void* const* /*tensors*/, void* /*workspace*/) {}

  /// Called right before a timed span begins: what several devices do together begins on all of them
  /// at once. Can be left out; allocates nothing and waits for nothing. Throws Failure.
  virtual void align(Context& /*context*/) {}

  /// Puts one run on the stream; allocates nothing and waits for nothing, so that it can be
  /// captured. `workspace` has info.workspace_bytes at least. Throws Failure.
  virtual void enqueue(Context& context, void* const* tensors, void* workspace) = 0;

  PlanInfo info{};
};

/// One line in primitives.cpp per kind. Throws Failure.
using Planner = std::unique_ptr<Plan> (*)(Context&, const Primitive&);
Planner planner_of(Kind kind);

// cuDNN
std::unique_ptr<Plan> plan_convolution(Context&, const Primitive&);
std::unique_ptr<Plan> plan_pooling(Context&, const Primitive&);
std::unique_ptr<Plan> plan_batch_norm(Context&, const Primitive&);
std::unique_ptr<Plan> plan_softmax(Context&, const Primitive&);     ///< ours where it is causal
std::unique_ptr<Plan> plan_activation(Context&, const Primitive&);  ///< gelu and silu are ours
std::unique_ptr<Plan> plan_dropout(Context&, const Primitive&);
std::unique_ptr<Plan> plan_rnn(Context&, const Primitive&);
std::unique_ptr<Plan> plan_attention(Context&, const Primitive&);
// cuBLASLt
std::unique_ptr<Plan> plan_gemm(Context&, const Primitive&);
// kernels of our own, and copies
std::unique_ptr<Plan> plan_empty(Context&, const Primitive&);
std::unique_ptr<Plan> plan_all_reduce(Context&, const Primitive&);  ///< NCCL
std::unique_ptr<Plan> plan_copy(Context&, const Primitive&);
std::unique_ptr<Plan> plan_read(Context&, const Primitive&);
std::unique_ptr<Plan> plan_layer_norm(Context&, const Primitive&);
std::unique_ptr<Plan> plan_elementwise(Context&, const Primitive&);
std::unique_ptr<Plan> plan_bias_activation(Context&, const Primitive&);
std::unique_ptr<Plan> plan_embedding(Context&, const Primitive&);
std::unique_ptr<Plan> plan_reduce(Context&, const Primitive&);
std::unique_ptr<Plan> plan_optimizer(Context&, const Primitive&);
std::unique_ptr<Plan> plan_pad(Context&, const Primitive&);
/// Those that are ours of what cuDNN has otherwise: pooling that is padded unevenly, the gradient
/// of batch norm with stored statistics, a causal softmax, gelu and silu.
std::unique_ptr<Plan> plan_own_pooling(Context&, const Primitive&);
std::unique_ptr<Plan> plan_own_batch_norm(Context&, const Primitive&);
std::unique_ptr<Plan> plan_own_softmax(Context&, const Primitive&);
std::unique_ptr<Plan> plan_own_activation(Context&, const Primitive&);

/// Regions of a plan of Rnn. Throws Failure(failed) for another plan.
std::int32_t rnn_regions_of(const Plan& plan, RnnRegion* regions, std::int32_t room);

}  // namespace forecost::cuda
