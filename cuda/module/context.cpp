#include "cuda/module/context.hpp"

#include "cuda/module/communicator.hpp"
#include "cuda/module/waiting.hpp"

namespace forecost::cuda {

namespace {

/// A rank that never comes would keep the runtime's own wait for ever.
template <class Query>
void wait_and_watch(const std::vector<Communicator*>& communicators, const char* what,
                    Query query) {
  Waiting waiting;
  for (;;) {
    const cudaError_t status = query();
    if (status != cudaErrorNotReady) return check(status, what);
    cudaGetLastError();  // "not ready" counts as an error
    const double waited_s = waiting.pause();
    for (Communicator* each : communicators) each->watch(waited_s);
  }
}

}  // namespace

Context::Context(int device_index) : device(device_index) {
  use();
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  owned_stream_ = make_stream();
  stream = owned_stream_.get();
}

Context::~Context() {
  if (cublas_ != nullptr) cublas_lt().destroy(cublas_);
  if (cudnn_ != nullptr) cudnnDestroy(cudnn_);
}

void Context::use() { check(cudaSetDevice(device), "cudaSetDevice"); }

void Context::wait() {
  if (communicators.empty()) return check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  wait_and_watch(communicators, "cudaStreamQuery", [&] { return cudaStreamQuery(stream); });
}

void Context::wait(const Event& event) {
  if (communicators.empty()) {
    return check(cudaEventSynchronize(event.get()), "cudaEventSynchronize");
  }
  wait_and_watch(communicators, "cudaEventQuery", [&] { return cudaEventQuery(event.get()); });
}

cudnnHandle_t Context::cudnn() {
  if (cudnn_ == nullptr) {
    check(cudnnCreate(&cudnn_), "cudnnCreate");
    check(cudnnSetStream(cudnn_, stream), "cudnnSetStream");
  }
  return cudnn_;
}

cublasLtHandle_t Context::cublas() {
  if (cublas_ == nullptr) check(cublas_lt().create(&cublas_), "cublasLtCreate");
  return cublas_;
}

}  // namespace forecost::cuda
