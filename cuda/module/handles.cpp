#include "cuda/module/handles.hpp"

#include "cuda/module/context.hpp"

namespace forecost::cuda {

Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return Stream(stream);
}

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreateWithFlags");
  return Event(event);
}

DeviceMemory device_memory(std::int64_t bytes) {
  if (bytes == 0) return nullptr;
  void* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), "cudaMalloc");
  return DeviceMemory(static_cast<std::byte*>(memory));
}

std::byte* Scratch::of(std::int64_t bytes) {
  if (bytes_ < bytes) {
    memory_.reset();
    bytes_ = 0;
    memory_ = device_memory(bytes);
    bytes_ = bytes;
  }
  return memory_.get();
}

double seconds_between(const Event& start, const Event& stop) {
  check(cudaEventSynchronize(stop.get()), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()), "cudaEventElapsedTime");
  return 1e-3 * static_cast<double>(milliseconds);
}

}  // namespace forecost::cuda
