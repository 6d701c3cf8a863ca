#include "data/operators/dropout.hpp"

#include "collect/backends/cpu/kernels.hpp"
#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"

namespace forecost::cpu {
namespace {

constexpr double dropped = 0.1;
constexpr auto scale = static_cast<float>(1 / (1 - dropped));

/// Whether an element is kept: a random number from its index alone, so that threads and vectors
/// need not wait for each other. It is MurmurHash3's last step (Appleby), a permutation of 32 bits
/// of which each depends on all; after 2^32 elements the numbers begin anew.
bool kept(std::size_t index) {
  constexpr auto limit = static_cast<std::uint32_t>(dropped * 4294967296.0);
  auto bits = static_cast<std::uint32_t>(index) + 0x9E3779B9U;
  bits = (bits ^ (bits >> 16)) * 0x85EBCA6BU;
  bits = (bits ^ (bits >> 13)) * 0xC2B2AE35U;
  return (bits ^ (bits >> 16)) >= limit;
}

template <class T>
FORECOST_CLONES void forward_loop(const T* __restrict__ x, T* __restrict__ y,
                                  std::uint8_t* __restrict__ mask, std::size_t begin,
                                  std::size_t end) {
#pragma omp simd
  for (std::size_t i = begin; i < end; ++i) {
    const bool keep = kept(i);
    mask[i] = keep ? 1 : 0;
    store(y[i], keep ? load(x[i]) * scale : 0.F);
  }
}

template <class T>
FORECOST_CLONES void backward_loop(const T* __restrict__ dy, const std::uint8_t* __restrict__ mask,
                                   T* __restrict__ dx, std::size_t begin, std::size_t end) {
#pragma omp simd
  for (std::size_t i = begin; i < end; ++i) {
    store(dx[i], load(dy[i]) * static_cast<float>(mask[i]) * scale);
  }
}

template <class T>
Action forward_action(Recipe::Id x, Recipe::Id y, Recipe::Id mask, std::size_t elements) {
  return own_code("dropout", [=](const Bound& bound) {
    return [=, x = bound.data<T>(x), y = bound.data<T>(y), mask = bound.data<std::uint8_t>(mask)] {
      split(elements, [&](std::size_t, std::size_t begin, std::size_t end) {
        forward_loop(x, y, mask, begin, end);
      });
    };
  });
}

template <class T>
void describe(Recipe& recipe, const Task& task) {
  const DropoutShape s = dropout_shape(task.layer);
  const auto elements = static_cast<std::size_t>(s.batch * s.features);
  const dnnl::memory::desc values = plain({s.batch * s.features}, data_type_of(task.dtype)),
                           bytes = plain({s.batch * s.features}, dnnl::memory::data_type::u8);
  if (task.pass == Pass::forward) {
    recipe.run(forward_action<T>(recipe.input("src", values), recipe.result("dst", values),
                                 recipe.result("mask", bytes), elements));
    return;
  }
  const auto dy = recipe.input("diff_dst", values), dx = recipe.result("diff_src", values);
  const auto mask = recipe.intermediate(bytes, "mask");
  recipe.prepare(forward_action<T>(dy, dx, mask, elements));  // for its mask
  recipe.run(own_code("dropout", [=](const Bound& bound) {
    return
        [=, dy = bound.data<T>(dy), mask = bound.data<std::uint8_t>(mask), dx = bound.data<T>(dx)] {
          split(elements, [&](std::size_t, std::size_t begin, std::size_t end) {
            backward_loop(dy, mask, dx, begin, end);
          });
        };
  }));
}

}  // namespace

void describe_dropout(Recipe& recipe, const Task& task) {
  with_type(task.dtype, [&]<class T>() { describe<T>(recipe, task); });
}

}  // namespace forecost::cpu
