#include <cmath>

#include "cuda/module/kernels.cuh"

namespace forecost::cuda {

/// Rows of which the first columns are seen: all of them where there are no causal queries.
struct SoftmaxRows {
  std::int64_t rows, columns, causal_queries;
  __device__ std::int64_t seen(std::int64_t row) const {
    return causal_queries == 0 ? columns : columns - causal_queries + row % causal_queries + 1;
  }
};

template <class T, int team, int width>
__global__ void __launch_bounds__(block_team) softmax_forward(const T* x, T* y, SoftmaxRows s) {
  const std::int64_t row = team_row<team>();
  if (row >= s.rows) return;
  x += row * s.columns;
  y += row * s.columns;
  const std::int64_t begin = static_cast<int>(threadIdx.x) * width, seen = s.seen(row);

  float largest = -INFINITY;
  for (std::int64_t i = begin; i < seen; i += team * width) {
    const Floats<width> values = load<width>(x + i);
#pragma unroll
    for (int k = 0; k < width; ++k)
      if (i + k < seen && values[k] > largest) largest = values[k];
  }
  largest = combine_team<team>(largest, Largest());

  float sum = 0;
  for (std::int64_t i = begin; i < seen; i += team * width) {
    const Floats<width> values = load<width>(x + i);
#pragma unroll
    for (int k = 0; k < width; ++k)
      if (i + k < seen) sum += std::exp(values[k] - largest);
  }
  const float factor = 1 / combine_team<team>(sum, Sum());

  for (std::int64_t i = begin; i < s.columns; i += team * width) {
    Floats<width> values = all_of<width>(0);
    if (i < seen) values = load<width>(x + i);
#pragma unroll
    for (int k = 0; k < width; ++k)
      values[k] = i + k < seen ? std::exp(values[k] - largest) * factor : 0;
    store<width>(y + i, values);
  }
}

template <class T, int team, int width>
__global__ void __launch_bounds__(block_team)
    softmax_backward(const T* y, const T* dy, T* dx, SoftmaxRows s) {
  const std::int64_t row = team_row<team>();
  if (row >= s.rows) return;
  y += row * s.columns;
  dy += row * s.columns;
  dx += row * s.columns;
  const std::int64_t begin = static_cast<int>(threadIdx.x) * width, seen = s.seen(row);

  float sum = 0;
  for (std::int64_t i = begin; i < seen; i += team * width) {
    const Floats<width> vy = load<width>(y + i), vdy = load<width>(dy + i);
#pragma unroll
    for (int k = 0; k < width; ++k)
      if (i + k < seen) sum += vy[k] * vdy[k];
  }
  sum = combine_team<team>(sum, Sum());

  for (std::int64_t i = begin; i < s.columns; i += team * width) {
    Floats<width> vy = all_of<width>(0), vdy = all_of<width>(0);
    if (i < seen) {
      vy = load<width>(y + i);
      vdy = load<width>(dy + i);
    }
#pragma unroll
    for (int k = 0; k < width; ++k) vy[k] = i + k < seen ? vy[k] * (vdy[k] - sum) : 0;
    store<width>(dx + i, vy);
  }
}

std::unique_ptr<Plan> plan_own_softmax(Context&, const Primitive& primitive) {
  const Softmax& p = primitive.softmax;
  const SoftmaxRows s{p.rows, p.columns, p.causal_queries};
  return with_element(p.element, [&]<class T>() {
    constexpr int width = width_of<T>();
    const bool whole = p.columns % width == 0, forward = p.direction == Direction::forward;
    return own_plan("softmax", [=](Context& context, void* const* t, void*) {
      if (s.rows == 0) return;
      if (forward) {
        const auto* x = static_cast<const T*>(t[0]);
        auto* y = static_cast<T*>(t[1]);
        with_team<width>(s.columns, whole && aligned({x, y}), [&]<int team, int n>() {
          launch<&softmax_forward<T, team, n>>(team_grid<team>(s.rows), team_block<team>(),
                                               context.stream, x, y, s);
        });
        return;
      }
      const auto *y = static_cast<const T*>(t[0]), *dy = static_cast<const T*>(t[1]);
      auto* dx = static_cast<T*>(t[2]);
      with_team<width>(s.columns, whole && aligned({y, dy, dx}), [&]<int team, int n>() {
        launch<&softmax_backward<T, team, n>>(team_grid<team>(s.rows), team_block<team>(),
                                              context.stream, y, dy, dx, s);
      });
    });
  });
}

}  // namespace forecost::cuda
