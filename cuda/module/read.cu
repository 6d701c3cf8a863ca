#include <algorithm>
#include <cstdio>

#include "cuda/module/launch.hpp"

namespace forecost::cuda {

namespace {

/// Not from L1, of which each multiprocessor has its own, and each time anew: the compiler may not
/// move it out of the loop over repeats.
__device__ uint4 load(const uint4* from) {
#ifdef __CUDA_ARCH__
  uint4 value;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from));
  return value;
#else
  return *from;
#endif
}

__device__ unsigned folded(uint4 value) { return value.x ^ value.y ^ value.z ^ value.w; }

}  // namespace

__global__ void read_kernel(const uint4* data, std::int64_t count, std::int64_t repeats,
                            std::uint64_t* sink) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  unsigned all = 0;
  for (std::int64_t repeat = 0; repeat < repeats; ++repeat) {
    std::int64_t i = first;
    for (; i + 3 * stride < count; i += 4 * stride) {
      const uint4 a = load(data + i), b = load(data + i + stride), c = load(data + i + 2 * stride),
                  d = load(data + i + 3 * stride);
      all ^= folded(a) ^ folded(b) ^ folded(c) ^ folded(d);
    }
    for (; i < count; i += stride) all ^= folded(load(data + i));
  }
  // Hardly ever true, but the compiler cannot know that nobody wants the values.
  if (all == 0x2B992DDFu) *sink = all;
}

namespace {

class ReadPlan : public Plan {
 public:
  ReadPlan(const Context& context, const Read& read)
      : count_(read.bytes / std::int64_t{sizeof(uint4)}), repeats_(read.repeats) {
    if (read.bytes % std::int64_t{sizeof(uint4)} != 0) {
      throw Failure(Code::failed, "read: bytes must be a multiple of 16");
    }
    // As many threads as the device holds at once.
    const std::int64_t most =
        std::int64_t{context.properties.multiProcessorCount} *
        std::max(context.properties.maxThreadsPerMultiProcessor / block_size, 1);
    const std::int64_t wanted = (count_ + block_size - 1) / block_size;
    blocks_ = static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 1, most));
    std::snprintf(info.implementation, sizeof info.implementation, "forecost:read");
  }
  void enqueue(Context& context, void* const* tensors, void*) override {
    launch<&read_kernel>(dim3(blocks_), dim3(block_size), context.stream,
                         static_cast<const uint4*>(tensors[0]), count_, repeats_,
                         static_cast<std::uint64_t*>(tensors[1]));
  }

 private:
  static constexpr int block_size = 256;
  std::int64_t count_, repeats_;
  unsigned blocks_ = 1;
};

}  // namespace

std::unique_ptr<Plan> plan_read(Context& context, const Primitive& primitive) {
  return std::make_unique<ReadPlan>(context, primitive.read);
}

}  // namespace forecost::cuda
