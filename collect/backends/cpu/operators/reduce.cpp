#include "data/operators/reduce.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "collect/backends/cpu/kernels.hpp"
#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"

// oneDNN reduces along the innermost axis; along another it has nothing but its reference code
// (which takes 500 times as long), and it has no gradients: those are code of our own.

namespace forecost::cpu {
namespace {

using dnnl::memory;

/// Sizes of a reduction as loops need them.
struct Sizes {
  std::size_t batch, rows, features;
};

/// Columns that are reduced side by side: their results stay in the first cache.
constexpr std::size_t block_columns = 512;

/// `columns` results of `rows` elements each, which lie `stride` apart; times `factor`.
template <ReduceOperation operation, class T>
FORECOST_CLONES void reduce_columns(const T* __restrict__ x, std::size_t rows, std::size_t stride,
                                    std::size_t columns, float factor, T* __restrict__ y) {
  constexpr bool max = operation == ReduceOperation::max;
  float results[block_columns];
  for (std::size_t j = 0; j < columns; ++j) {
    results[j] = max ? -std::numeric_limits<float>::infinity() : 0;
  }
  std::size_t row = 0;
  // Four rows at a time: what is read and written of the results is a quarter.
  for (; row + 4 <= rows; row += 4, x += 4 * stride) {
    const T *second = x + stride, *third = second + stride, *fourth = third + stride;
#pragma omp simd
    for (std::size_t j = 0; j < columns; ++j) {
      const float a = load(x[j]), b = load(second[j]), c = load(third[j]), d = load(fourth[j]);
      results[j] = max ? std::max(results[j], std::max(std::max(a, b), std::max(c, d)))
                       : results[j] + ((a + b) + (c + d));
    }
  }
  for (; row < rows; ++row, x += stride) {
#pragma omp simd
    for (std::size_t j = 0; j < columns; ++j) {
      results[j] = max ? std::max(results[j], load(x[j])) : results[j] + load(x[j]);
    }
  }
#pragma omp simd
  for (std::size_t j = 0; j < columns; ++j) store(y[j], results[j] * factor);
}

template <ReduceOperation operation, class T>
void reduce_rows(const T* x, T* y, const Sizes& s, float factor) {
  // Every thread has columns, also of few items.
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  const std::size_t share = (s.features * s.batch + threads - 1) / threads;
  const std::size_t columns = std::clamp<std::size_t>((share + 15) / 16 * 16, 16, block_columns);
  const std::size_t blocks = (s.features + columns - 1) / columns;
  split_rows(s.batch * blocks, s.rows * columns,
             [&](std::size_t, std::size_t begin, std::size_t end) {
               for (std::size_t i = begin; i < end; ++i) {
                 const std::size_t item = i / blocks, first = i % blocks * columns;
                 reduce_columns<operation>(x + item * s.rows * s.features + first, s.rows,
                                           s.features, std::min(columns, s.features - first),
                                           factor, y + item * s.features + first);
               }
             });
}

/// Each of `rows` values into its own row, times `factor`.
template <class T>
FORECOST_CLONES void fill_rows(const T* __restrict__ values, T* __restrict__ to, std::size_t rows,
                               std::size_t features, float factor) {
  for (std::size_t row = 0; row < rows; ++row, to += features) {
    T value;
    store(value, load(values[row]) * factor);
#pragma omp simd
    for (std::size_t j = 0; j < features; ++j) to[j] = value;
  }
}

template <class T>
FORECOST_CLONES void scale(const T* __restrict__ from, T* __restrict__ to, std::size_t n,
                           float factor) {
#pragma omp simd
  for (std::size_t j = 0; j < n; ++j) store(to[j], load(from[j]) * factor);
}

/// Makes `rows` rows of the first one.
template <class T>
void repeat_row(T* row, std::size_t rows, std::size_t features) {
  // From what is in the first cache, and not one call for each row where they are short.
  const std::size_t most = std::max<std::size_t>(1, 16384 / (features * sizeof(T)));
  for (std::size_t done = 1, n = 0; done < rows; done += n) {
    n = std::min({done, rows - done, most});
    std::memcpy(row + done * features, row, n * features * sizeof(T));
  }
}

/// dx of sum and mean: dy for every element, times `factor`.
template <ReduceAxis axis, class T>
void broadcast(const T* dy, T* dx, const Sizes& s, float factor) {
  split_rows(s.batch * s.rows, s.features, [&](std::size_t, std::size_t begin, std::size_t end) {
    if constexpr (axis == ReduceAxis::features) {
      fill_rows(dy + begin, dx + begin * s.features, end - begin, s.features, factor);
    } else {
      for (std::size_t row = begin; row < end;) {
        const std::size_t item = row / s.rows, rows = std::min(end, (item + 1) * s.rows) - row;
        scale(dy + item * s.features, dx + row * s.features, s.features, factor);
        repeat_row(dx + row * s.features, rows, s.features);
        row += rows;
      }
    }
  });
}

/// dx of max: dy where the largest element was, zero elsewhere.
template <ReduceAxis axis, class T>
void put_back(const T* dy, const std::int64_t* places, T* dx, const Sizes& s) {
  split_rows(s.batch * s.rows, s.features, [&](std::size_t, std::size_t begin, std::size_t end) {
    std::memset(dx + begin * s.features, 0, (end - begin) * s.features * sizeof(T));
    if constexpr (axis == ReduceAxis::features) {
      for (std::size_t row = begin; row < end; ++row) {
        dx[row * s.features + static_cast<std::size_t>(places[row])] = dy[row];
      }
    } else {
      // Of each item the places among this thread's rows.
      for (std::size_t item = begin / s.rows; item * s.rows < end; ++item) {
        for (std::size_t j = item * s.features; j < (item + 1) * s.features; ++j) {
          const std::size_t row = item * s.rows + static_cast<std::size_t>(places[j]);
          if (row >= begin && row < end) dx[row * s.features + j % s.features] = dy[j];
        }
      }
    }
  });
}

template <class T, ReduceAxis axis>
Action backward_action(Recipe& recipe, const ReduceShape& shape, const Sizes& s, Recipe::Id dy,
                       Recipe::Id dx) {
  if (shape.operation == ReduceOperation::max) {
    const auto places = axis == ReduceAxis::features
                            ? recipe.indices("index", shape.batch * shape.rows, shape.features)
                            : recipe.indices("index", shape.batch * shape.features, shape.rows);
    return own_code("put_back", [=](const Bound& bound) {
      return [=, dy = bound.data<T>(dy), dx = bound.data<T>(dx),
              places = bound.data<std::int64_t>(places)] { put_back<axis>(dy, places, dx, s); };
    });
  }
  const std::size_t reduced = axis == ReduceAxis::features ? s.features : s.rows;
  const float factor =
      shape.operation == ReduceOperation::mean ? 1 / static_cast<float>(reduced) : 1;
  return own_code("broadcast", [=](const Bound& bound) {
    return
        [=, dy = bound.data<T>(dy), dx = bound.data<T>(dx)] { broadcast<axis>(dy, dx, s, factor); };
  });
}

template <class T>
Action forward_action(ReduceOperation operation, const Sizes& s, Recipe::Id x, Recipe::Id y) {
  return own_code("reduce_rows", [=](const Bound& bound) -> std::function<void()> {
    const auto* from = bound.data<T>(x);
    auto* to = bound.data<T>(y);
    switch (operation) {
      case ReduceOperation::max:
        return [=] { reduce_rows<ReduceOperation::max>(from, to, s, 1); };
      case ReduceOperation::sum:
        return [=] { reduce_rows<ReduceOperation::sum>(from, to, s, 1); };
      case ReduceOperation::mean:
        break;
    }
    return [=] { reduce_rows<ReduceOperation::sum>(from, to, s, 1 / static_cast<float>(s.rows)); };
  });
}

dnnl::algorithm algorithm_of(ReduceOperation operation) {
  switch (operation) {
    case ReduceOperation::sum:
      return dnnl::algorithm::reduction_sum;
    case ReduceOperation::mean:
      return dnnl::algorithm::reduction_mean;
    case ReduceOperation::max:
      break;
  }
  return dnnl::algorithm::reduction_max;
}

}  // namespace

void describe_reduce(Recipe& recipe, const Task& task) {
  const ReduceShape shape = reduce_shape(task.layer);
  const Sizes s{static_cast<std::size_t>(shape.batch), static_cast<std::size_t>(shape.rows),
                static_cast<std::size_t>(shape.features)};
  const memory::data_type type = data_type_of(task.dtype);
  const bool features = shape.axis == ReduceAxis::features;
  const memory::desc whole = plain({shape.batch, shape.rows, shape.features}, type),
                     reduced = features ? plain({shape.batch, shape.rows, 1}, type)
                                        : plain({shape.batch, 1, shape.features}, type);
  if (task.pass == Pass::forward) {
    const auto x = recipe.input("src", whole), y = recipe.result("dst", reduced);
    if (features && shape.features > 1) {
      recipe.run(recipe.primitive(
          describe<dnnl::reduction>(recipe.engine(), attributes_of(), algorithm_of(shape.operation),
                                    whole, reduced, 0.F, 0.F),
          {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}}));
    } else {
      // A row of one element is its own result: all of them are one row that is reduced.
      const Sizes own = features ? Sizes{1, 1, s.batch * s.rows} : s;
      recipe.run(with_type(
          task.dtype, [&]<class T>() { return forward_action<T>(shape.operation, own, x, y); }));
    }
    return;
  }
  const auto dy = recipe.input("diff_dst", reduced), dx = recipe.result("diff_src", whole);
  recipe.run(with_type(task.dtype, [&]<class T>() {
    return features ? backward_action<T, ReduceAxis::features>(recipe, shape, s, dy, dx)
                    : backward_action<T, ReduceAxis::rows>(recipe, shape, s, dy, dx);
  }));
}

}  // namespace forecost::cpu
