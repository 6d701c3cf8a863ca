#include "cuda/module/support.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <vector>

#include "cuda/module/counter_hash.hpp"
#include "cuda/module/launch.hpp"

namespace forecost::cuda {

namespace {

constexpr int block_size = 256;
/// The sums of so many interleaved parts are added one by one: the order, and with it the total,
/// depends on nothing but the count.
constexpr std::int64_t most_parts = 16384;

/// Enough to fill a device, with a stride through what is left.
dim3 blocks_for(std::int64_t count) {
  const std::int64_t blocks = (count + block_size - 1) / block_size;
  return dim3(static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, 4096)));
}

__device__ std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::int64_t thread_count() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

__device__ double as_double(float value) { return value; }
__device__ double as_double(__half value) { return __half2float(value); }
__device__ double as_double(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ double as_double(double value) { return value; }
__device__ double as_double(std::int64_t value) { return static_cast<double>(value); }
__device__ double as_double(std::uint8_t value) { return value; }

__device__ void set(float& to, float value) { to = value; }
__device__ void set(__half& to, float value) { to = __float2half(value); }
__device__ void set(__nv_bfloat16& to, float value) { to = __float2bfloat16(value); }

}  // namespace

template <class T>
__global__ void fill_uniform_kernel(T* memory, std::int64_t count, double low, double high,
                                    std::uint64_t seed) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    set(memory[i], static_cast<float>(counter_uniform(seed, i, low, high)));
  }
}

__global__ void fill_indices_kernel(std::int64_t* memory, std::int64_t count, std::int64_t bound,
                                    std::uint64_t seed) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    memory[i] = counter_index(seed, i, bound);
  }
}

template <class T>
__global__ void sum_kernel(const T* memory, std::int64_t count, Sums* parts) {
  Sums sums{};
#pragma unroll 8
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const double value = as_double(memory[i]);
    sums.total += value;
    sums.magnitude += std::fabs(value);
  }
  parts[thread_index()] = sums;
}

/// On a host, where tests run kernels, it takes no time: there the clock is a model's.
__global__ void spin_kernel([[maybe_unused]] std::uint64_t nanoseconds) {
#ifdef __CUDA_ARCH__
  std::uint64_t start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
#endif
}

namespace {

template <class T>
void fill(Context& context, void* memory, std::int64_t count, double low, double high,
          std::uint64_t seed) {
  launch<&fill_uniform_kernel<T>>(blocks_for(count), dim3(block_size), context.stream,
                                  static_cast<T*>(memory), count, low, high, seed);
}

template <class T>
void sum_parts(Context& context, const void* memory, std::int64_t count, Sums* parts, int blocks) {
  launch<&sum_kernel<T>>(dim3(static_cast<unsigned>(blocks)), dim3(block_size), context.stream,
                         static_cast<const T*>(memory), count, parts);
}

}  // namespace

void fill_uniform(Context& context, void* memory, Element element, std::int64_t count, double low,
                  double high, std::uint64_t seed) {
  switch (element) {
    case Element::f32:
      fill<float>(context, memory, count, low, high, seed);
      break;
    case Element::f16:
      fill<__half>(context, memory, count, low, high, seed);
      break;
    case Element::bf16:
      fill<__nv_bfloat16>(context, memory, count, low, high, seed);
      break;
    default:
      throw Failure(Code::failed, "fill_uniform: values are of f32, f16 or bf16");
  }
  context.wait();
}

void fill_indices(Context& context, void* memory, std::int64_t count, std::int64_t bound,
                  std::uint64_t seed) {
  if (bound < 1) throw Failure(Code::failed, "fill_indices: the bound is below 1");
  launch<&fill_indices_kernel>(blocks_for(count), dim3(block_size), context.stream,
                               static_cast<std::int64_t*>(memory), count, bound, seed);
  context.wait();
}

Sums sum(Context& context, const void* memory, Element element, std::int64_t count) {
  const int blocks = static_cast<int>(
      std::clamp<std::int64_t>(count / (64 * block_size), 1, most_parts / block_size));
  std::vector<Sums> parts(static_cast<std::size_t>(blocks) * block_size);
  const auto bytes = parts.size() * sizeof(Sums);
  auto* device_parts =
      reinterpret_cast<Sums*>(context.partial_sums.of(most_parts * std::int64_t{sizeof(Sums)}));
  switch (element) {
    case Element::f32:
      sum_parts<float>(context, memory, count, device_parts, blocks);
      break;
    case Element::f16:
      sum_parts<__half>(context, memory, count, device_parts, blocks);
      break;
    case Element::bf16:
      sum_parts<__nv_bfloat16>(context, memory, count, device_parts, blocks);
      break;
    case Element::f64:
      sum_parts<double>(context, memory, count, device_parts, blocks);
      break;
    case Element::i64:
      sum_parts<std::int64_t>(context, memory, count, device_parts, blocks);
      break;
    case Element::u8:
      sum_parts<std::uint8_t>(context, memory, count, device_parts, blocks);
      break;
  }
  check(cudaMemcpyAsync(parts.data(), device_parts, bytes, cudaMemcpyDeviceToHost, context.stream),
        "cudaMemcpyAsync");
  context.wait();
  Sums sums{};
  for (const Sums& part : parts) {
    sums.total += part.total;
    sums.magnitude += part.magnitude;
  }
  return sums;
}

void enqueue_spin(Context& context, double seconds, int blocks) {
  launch<&spin_kernel>(dim3(static_cast<unsigned>(blocks)), dim3(32), context.stream,
                       static_cast<std::uint64_t>(1e9 * std::max(seconds, 0.0)));
}

}  // namespace forecost::cuda
