#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>

// Owners of what CUDA gives out. Releasing reports nothing: after a sticky error it fails, and that
// error has been told already.

namespace forecost::cuda {

template <auto release>
struct Release {
  template <class Handle>
  void operator()(Handle* handle) const noexcept {
    release(handle);
  }
};

using Stream = std::unique_ptr<CUstream_st, Release<cudaStreamDestroy>>;
using Event = std::unique_ptr<CUevent_st, Release<cudaEventDestroy>>;
using Graph = std::unique_ptr<CUgraph_st, Release<cudaGraphDestroy>>;
using GraphExec = std::unique_ptr<CUgraphExec_st, Release<cudaGraphExecDestroy>>;
using DeviceMemory = std::unique_ptr<std::byte, Release<cudaFree>>;

/// One that work is queued on without regard to the default stream. Throws Failure.
Stream make_stream();
/// One that keeps the time. Throws Failure.
Event make_event();
/// Aligned to 256 bytes at least; null for 0 bytes. Throws Failure.
DeviceMemory device_memory(std::int64_t bytes);
/// Memory that is kept, and made anew where more is wanted.
class Scratch {
 public:
  /// What it held is lost where it grows. Throws Failure.
  std::byte* of(std::int64_t bytes);

 private:
  DeviceMemory memory_;
  std::int64_t bytes_ = 0;
};
/// Between two recorded events, the second of which is awaited. Throws Failure.
double seconds_between(const Event& start, const Event& stop);

}  // namespace forecost::cuda
