#pragma once

#include <omp.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "data/vocabulary.hpp"

// What code of our own is made of: loops over f32 or bf16, compiled for what the machine has and
// split over the threads of the team.

/// Compiles a function for AVX-512 too, to be chosen at run time: the build is for AVX2. Neither
/// lambdas nor `omp parallel` may be within: they would be compiled once, for AVX2. (GCC knows the
/// level with 16-bit operations, for bf16, from version 12 on.)
#if !defined(__x86_64__) || !defined(__GNUC__) || defined(__clang__) || \
    defined(__SANITIZE_ADDRESS__)
#define FORECOST_CLONES
#elif __GNUC__ >= 12
#define FORECOST_CLONES __attribute__((target_clones("arch=x86-64-v4", "default")))
#else
#define FORECOST_CLONES __attribute__((target_clones("avx512f", "default")))
#endif

namespace forecost::cpu {

/// An element of a bf16 tensor: the upper half of a float.
using Bf16 = std::uint16_t;

inline float load(float value) { return value; }
inline float load(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}
inline void store(float& to, float value) { to = value; }
/// Rounds to nearest even. The NaNs that arithmetic makes stay what they are.
inline void store(Bf16& to, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  to = static_cast<Bf16>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

/// Calls work.operator()<T>() with the C++ type of a dtype's elements. dtype is f32 or bf16.
template <class Work>
auto with_type(DType dtype, Work work) {
  if (dtype == DType::f32) return work.template operator()<float>();
  if (dtype == DType::bf16) return work.template operator()<Bf16>();
  throw std::logic_error("elements of our own loops are f32 or bf16");
}

/// Below this many elements a second thread costs more than it saves; PyTorch's grain size.
inline constexpr std::size_t grain_elements = 32768;

/// Calls work(thread, begin, end) for each thread's part of n things, which begins at a multiple of
/// `block`; on fewer threads where there are fewer than `grain` for each.
template <class Work>
void split(std::size_t n, std::size_t grain, std::size_t block, Work work) {
  const std::size_t threads =
      std::min(static_cast<std::size_t>(omp_get_max_threads()), (n + grain - 1) / grain);
  if (threads <= 1) {
    if (n > 0) work(std::size_t{0}, std::size_t{0}, n);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(threads))
  {
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    const std::size_t share = ((n + threads - 1) / threads + block - 1) / block * block;
    const std::size_t begin = std::min(n, thread * share), end = std::min(n, begin + share);
    if (begin < end) work(thread, begin, end);
  }
}

/// The same of n elements, in blocks of at least a cache line.
template <class Work>
void split(std::size_t n, Work work) {
  split(n, grain_elements, 64, work);
}

/// The same of rows of `row_elements` each.
template <class Work>
void split_rows(std::size_t rows, std::size_t row_elements, Work work) {
  split(rows, std::max<std::size_t>(1, grain_elements / row_elements), 1, work);
}

}  // namespace forecost::cpu
