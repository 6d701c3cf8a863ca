#include <algorithm>
#include <cmath>

#include "cuda/module/reduction.cuh"

namespace forecost::cuda {

template <class T, bool maximum>
struct ReduceForward {
  using Value = float;
  const T* x;
  T* y;
  std::int64_t reduced, inner;
  float factor;

  __device__ float none() const { return maximum ? -INFINITY : 0; }
  __device__ float both(float a, float b) const { return maximum ? (a > b ? a : b) : a + b; }
  template <bool row, int n>
  __device__ void take(float (&to)[n], std::int64_t o, std::int64_t r, std::int64_t i) const {
    const Floats<n> values = load<n>(x + (o * reduced + r) * inner + i);
#pragma unroll
    for (int k = 0; k < n; ++k) to[k] = both(to[k], values[k]);
  }
  __device__ void put(std::int64_t result, float value) const {
    from_float(y[result], value * factor);
  }
};

/// Where the first largest element is along the middle.
template <class T>
struct FirstLargest {
  using Value = unsigned;
  const T *x, *y;
  unsigned* places;
  std::int64_t reduced, inner;

  __device__ unsigned none() const { return 0xFFFFFFFFU; }
  __device__ unsigned both(unsigned a, unsigned b) const { return a < b ? a : b; }
  template <bool row, int n>
  __device__ void take(unsigned (&to)[n], std::int64_t o, std::int64_t r, std::int64_t i) const {
    const Floats<n> values = load<n>(x + (o * reduced + r) * inner + i);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float largest = to_float(y[o * inner + i + (row ? 0 : k)]);
      if (values[k] == largest) to[k] = both(to[k], static_cast<unsigned>(r + (row ? k : 0)));
    }
  }
  __device__ void put(std::int64_t result, unsigned value) const { places[result] = value; }
};

/// dx = dy, times `factor`, for every element, or where `places` says if there are such.
template <class T>
struct ReduceBackward {
  const T* dy;
  const unsigned* places;
  T* dx;
  std::int64_t reduced, inner;
  float factor;

  template <int n>
  __device__ void run(std::int64_t e) const {
    const std::int64_t row = e / inner, i = e % inner, o = row / reduced, r = row % reduced;
    const bool along = inner == 1;  // of n elements then, which have one result
    Floats<n> values = all_of<n>(0);
    if (along) {
      values = all_of<n>(to_float(dy[o]));
    } else {
      values = load<n>(dy + o * inner + i);
    }
#pragma unroll
    for (int k = 0; k < n; ++k) {
      values[k] *= factor;
      if (places != nullptr && places[o * inner + i + (along ? 0 : k)] != r + (along ? k : 0)) {
        values[k] = 0;
      }
    }
    store<n>(dx + e, values);
  }
};

namespace {

template <class T>
std::unique_ptr<Plan> plan_of(const Context& device, const Reduce& p) {
  constexpr int width = width_of<T>();
  const Extents e{p.outer, p.reduced, p.inner};
  const Chunks chunks = chunks_of(device, e, width);
  const bool maximum = p.reduction == Reduction::max,
             whole = (p.inner == 1 ? p.reduced : p.inner) % width == 0;
  const float factor = p.reduction == Reduction::mean
                           ? 1 / static_cast<float>(std::max<std::int64_t>(1, p.reduced))
                           : 1;
  if (p.direction == Direction::forward) {
    return own_plan(
        "reduce",
        [=](Context& context, void* const* t, void* workspace) {
          const auto* x = static_cast<const T*>(t[0]);
          auto* y = static_cast<T*>(t[1]);
          const bool packs = whole && aligned({x});
          if (maximum) {
            reduce<width>(context, ReduceForward<T, true>{x, y, e.reduced, e.inner, factor}, e,
                          chunks, packs, workspace);
          } else {
            reduce<width>(context, ReduceForward<T, false>{x, y, e.reduced, e.inner, factor}, e,
                          chunks, packs, workspace);
          }
        },
        chunks.workspace_bytes<float>(e));
  }
  const std::int64_t place_bytes =
      maximum ? ceil_divide(e.results() * static_cast<std::int64_t>(sizeof(unsigned)), 256) * 256
              : 0;
  return own_plan(
      "reduce",
      [=](Context& context, void* const* t, void* workspace) {
        const auto *x = static_cast<const T*>(t[0]), *y = static_cast<const T*>(t[1]),
                   *dy = static_cast<const T*>(t[2]);
        auto* dx = static_cast<T*>(t[3]);
        unsigned* places = maximum ? static_cast<unsigned*>(workspace) : nullptr;
        if (maximum) {
          reduce<width>(context, FirstLargest<T>{x, y, places, e.reduced, e.inner}, e, chunks,
                        whole && aligned({x}), static_cast<char*>(workspace) + place_bytes);
        }
        map<T>(context, ReduceBackward<T>{dy, places, dx, e.reduced, e.inner, factor},
               e.results() * e.reduced, whole && aligned({dy, dx}));
      },
      maximum ? place_bytes + chunks.workspace_bytes<unsigned>(e) : 0);
}

}  // namespace

std::unique_ptr<Plan> plan_reduce(Context& context, const Primitive& primitive) {
  const Reduce& p = primitive.reduce;
  if (p.reduced < 1 || p.reduced >= 0xFFFFFFFF) {
    throw Failure(Code::unsupported, "reduce: there must be 1 to 4294967294 elements to reduce");
  }
  return with_element(p.element, [&]<class T>() { return plan_of<T>(context, p); });
}

}  // namespace forecost::cuda
