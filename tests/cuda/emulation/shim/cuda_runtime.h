#pragma once

// What device code finds in a kernel, for a host compiler, beside the toolkit's own headers.

#include_next <cuda_runtime.h>

#include <cmath>
#include <cstring>
#include <type_traits>

#undef __shared__
#define __shared__ static  // blocks run one after another
#undef __launch_bounds__
#define __launch_bounds__(...)
// Attributes of the toolkit that only matter to nvcc are empty already.

namespace forecost::emulation {

// Of the thread that is running.
extern uint3 thread_index, block_index;
extern dim3 block_extent, grid_extent;

void block_barrier();
void warp_barrier(unsigned mask);
/// What the lane `of` of the warp gave, once all lanes have given theirs. `mask` must be all lanes.
unsigned long long exchange(unsigned mask, unsigned long long value, int of);
unsigned ballot(unsigned mask, bool value);
int lane();
/// Nanoseconds, each reading a little later than the one before.
unsigned long long global_timer();

template <class T>
T shuffle(unsigned mask, T value, int of) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  unsigned long long bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(mask, bits, of);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T>
T replace(T* address, T value) {
  const T old = *address;
  *address = value;
  return old;
}

}  // namespace forecost::emulation

#define threadIdx ::forecost::emulation::thread_index
#define blockIdx ::forecost::emulation::block_index
#define blockDim ::forecost::emulation::block_extent
#define gridDim ::forecost::emulation::grid_extent
#define warpSize 32

inline void __syncthreads() { forecost::emulation::block_barrier(); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU) { forecost::emulation::warp_barrier(mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}

template <class T>
T __shfl_sync(unsigned mask, T value, int of) {
  return forecost::emulation::shuffle(mask, value, of & 31);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with) {
  return forecost::emulation::shuffle(mask, value, forecost::emulation::lane() ^ with);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by) {
  const int lane = forecost::emulation::lane(), of = lane - static_cast<int>(by);
  return forecost::emulation::shuffle(mask, value, of < 0 ? lane : of);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by) {
  const int lane = forecost::emulation::lane(), of = lane + static_cast<int>(by);
  return forecost::emulation::shuffle(mask, value, of > 31 ? lane : of);
}
inline unsigned __ballot_sync(unsigned mask, int value) {
  return forecost::emulation::ballot(mask, value != 0);
}
inline int __any_sync(unsigned mask, int value) { return __ballot_sync(mask, value) != 0; }
inline int __all_sync(unsigned mask, int value) { return __ballot_sync(mask, value) == mask; }

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits)); }
inline float rsqrtf(float value) { return 1 / std::sqrt(value); }
template <class T>
T __ldg(const T* address) {
  return *address;
}

template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return forecost::emulation::replace(address, static_cast<T>(*address + value));
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return forecost::emulation::replace(address, *address < value ? value : *address);
}
template <class T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return forecost::emulation::replace(address, value < *address ? value : *address);
}
template <class T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return forecost::emulation::replace(address, value);
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return forecost::emulation::replace(address, *address == expected ? value : *address);
}
