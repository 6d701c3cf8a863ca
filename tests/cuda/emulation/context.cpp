// A context without a device: what the host side of our kernels asks for, so that a test can run
// planners and kernels with no CUDA library around. (emulation.map keeps the runtime's names
// inside: a stand-in of the runtime may be loaded beside.)

#include "cuda/module/context.hpp"

#include <cstdlib>
#include <cstring>

extern "C" {
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
}

namespace forecost::cuda {

Context::Context(int device_index) : device(device_index) {
  properties.multiProcessorCount = 4;  // few, so that small reductions are cut into chunks
  properties.maxThreadsPerMultiProcessor = 512;
}
Context::~Context() = default;
void Context::wait() {}

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw Failure(Code::failed, what);
}

std::byte* Scratch::of(std::int64_t bytes) {
  if (bytes > bytes_) {
    memory_.reset(static_cast<std::byte*>(std::malloc(static_cast<std::size_t>(bytes))));
    bytes_ = bytes;
  }
  return memory_.get();
}

}  // namespace forecost::cuda
