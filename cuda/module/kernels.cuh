#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>

#include "cuda/module/context.hpp"
#include "cuda/module/launch.hpp"

// What our kernels are made of. Elements are f32, f16 or bf16 in memory and f32 in registers;
// memory is read and written 16 bytes at a time where operands are aligned to that.

namespace forecost::cuda {

/// Calls work.operator()<T>() with the C++ type of elements. Throws Failure for one that is not a
/// floating-point number.
template <class Work>
auto with_element(Element element, Work work) {
  switch (element) {
    case Element::f32:
      return work.template operator()<float>();
    case Element::f16:
      return work.template operator()<__half>();
    case Element::bf16:
      return work.template operator()<__nv_bfloat16>();
    default:
      throw Failure(Code::unsupported, "kernels of our own take f32, f16 or bf16 elements");
  }
}

/// "forecost:name".
inline void name_own(PlanInfo& info, const char* name) {
  char* to = info.implementation;
  for (const char* from : {"forecost:", name})
    while (*from != 0) *to++ = *from++;
  *to = 0;
}

/// A plan that calls run(context, tensors, workspace).
template <class Run>
std::unique_ptr<Plan> own_plan(const char* name, Run run, std::int64_t workspace_bytes = 0) {
  struct Own : Plan {
    explicit Own(Run run_) : run(std::move(run_)) {}
    void enqueue(Context& context, void* const* tensors, void* workspace) override {
      run(context, tensors, workspace);
    }
    Run run;
  };
  auto plan = std::make_unique<Own>(std::move(run));
  name_own(plan->info, name);
  plan->info.workspace_bytes = workspace_bytes;
  return plan;
}

constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// --- memory ---

/// Elements in 16 bytes.
template <class T>
constexpr int width_of() {
  return 16 / static_cast<int>(sizeof(T));
}

inline bool aligned(std::initializer_list<const void*> pointers) {
  for (const void* each : pointers)
    if (reinterpret_cast<std::uintptr_t>(each) % 16 != 0) return false;
  return true;
}

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__half value) { return __half2float(value); }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline void from_float(float& to, float value) { to = value; }
__device__ inline void from_float(__half& to, float value) { to = __float2half_rn(value); }
__device__ inline void from_float(__nv_bfloat16& to, float value) {
  to = __float2bfloat16_rn(value);
}

template <int n>
struct Floats {
  float values[n];
  __device__ float& operator[](int i) { return values[i]; }
  __device__ float operator[](int i) const { return values[i]; }
};
template <int n>
__device__ Floats<n> all_of(float value) {
  Floats<n> all;
#pragma unroll
  for (int k = 0; k < n; ++k) all[k] = value;
  return all;
}

template <class T, int n>
struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) Pack {
  T values[n];
};
template <int n, class T>
__device__ Floats<n> load(const T* from) {
  const Pack<T, n> pack = *reinterpret_cast<const Pack<T, n>*>(from);
  Floats<n> floats;
#pragma unroll
  for (int k = 0; k < n; ++k) floats[k] = to_float(pack.values[k]);
  return floats;
}
template <int n, class T>
__device__ void store(T* to, const Floats<n>& floats) {
  Pack<T, n> pack;
#pragma unroll
  for (int k = 0; k < n; ++k) from_float(pack.values[k], floats[k]);
  *reinterpret_cast<Pack<T, n>*>(to) = pack;
}

// --- one thread for a pack of elements ---

inline constexpr int map_threads = 256;

/// rule.run<n>(i) for all of [0, count): n elements from i on, together.
template <class Rule, int width>
__global__ void __launch_bounds__(map_threads) map_elements(Rule rule, std::int64_t count) {
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * map_threads + threadIdx.x) * width;
  if (first + width <= count) {
    rule.template run<width>(first);
  } else {
    for (std::int64_t i = first; i < count; ++i) rule.template run<1>(i);
  }
}

/// For elements T: in packs of 16 bytes of them where `packs` says that they can be loaded and
/// stored as such.
template <class T, class Rule>
void map(Context& context, const Rule& rule, std::int64_t count, bool packs) {
  constexpr int width = width_of<T>();
  if (count == 0) return;
  const auto blocks = [&](std::int64_t elements) {
    return dim3(static_cast<unsigned>(ceil_divide(count, elements * map_threads)));
  };
  if (packs) {
    launch<&map_elements<Rule, width>>(blocks(width), map_threads, context.stream, rule, count);
  } else {
    launch<&map_elements<Rule, 1>>(blocks(1), map_threads, context.stream, rule, count);
  }
}

// --- threads that share a row: a warp, or all of a block (`team` threads) ---

inline constexpr int warp = 32;
inline constexpr int block_team = 256;

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
  __device__ float2 operator()(float2 a, float2 b) const { return {a.x + b.x, a.y + b.y}; }
};
struct Largest {
  __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};
struct Smallest {
  __device__ unsigned operator()(unsigned a, unsigned b) const { return a < b ? a : b; }
};

template <class Value>
__device__ Value exchange(Value value, int distance) {
  return __shfl_xor_sync(0xFFFFFFFFU, value, distance);
}
__device__ inline float2 exchange(float2 value, int distance) {
  return {exchange(value.x, distance), exchange(value.y, distance)};
}

/// Of the values of the team, the same to each of it, in a fixed order. All call it.
template <int team, class Value, class Combine>
__device__ Value combine_team(Value value, Combine combine) {
#pragma unroll
  for (int distance = warp / 2; distance > 0; distance /= 2)
    value = combine(value, exchange(value, distance));
  if constexpr (team > warp) {
    constexpr int warps = team / warp;
    __shared__ Value of_warps[warps];
    __syncthreads();  // those of the last call have been read
    if (threadIdx.x % warp == 0) of_warps[threadIdx.x / warp] = value;
    __syncthreads();
    value = of_warps[0];
#pragma unroll
    for (int i = 1; i < warps; ++i) value = combine(value, of_warps[i]);
  }
  return value;
}

/// The grid and block with which `rows` get a team each: threadIdx.x is the place within it.
template <int team>
dim3 team_block() {
  return dim3(team, block_team / team);
}
template <int team>
dim3 team_grid(std::int64_t rows) {
  return dim3(static_cast<unsigned>(ceil_divide(rows, block_team / team)));
}
template <int team>
__device__ std::int64_t team_row() {
  return static_cast<std::int64_t>(blockIdx.x) * (block_team / team) + threadIdx.y;
}

/// Calls work.operator()<team, width>() with what suits rows of `columns` elements: below a
/// thousand a warp is enough and waits for nobody.
template <int width, class Work>
void with_team(std::int64_t columns, bool packs, Work work) {
  if (columns <= 1024) {
    packs ? work.template operator()<warp, width>() : work.template operator()<warp, 1>();
  } else {
    packs ? work.template operator()<block_team, width>()
          : work.template operator()<block_team, 1>();
  }
}

}  // namespace forecost::cuda
