#pragma once

#include "cuda/module/kernels.cuh"

// Reductions of outer x reduced x inner over the middle, in a fixed order. Where there are too few
// results to occupy the device, each is made of chunks, which a second kernel puts together.
//
// What is reduced says an Op:
//   Value                            what is accumulated
//   Value none(), both(Value, Value)
//   take<row, n>(Value (&acc)[n], o, r, i)   takes n elements from that place on: along the middle
//                                    if `row` (then inner is 1), else along the inner axis
//   put(result, Value)               of result o * inner + i

namespace forecost::cuda {

struct Extents {
  std::int64_t outer, reduced, inner;
  std::int64_t results() const { return outer * inner; }
};

inline constexpr int column_rows = 8;  ///< of a block of warp x column_rows threads

/// `chunk` elements of a row for each team. Partial results are chunks x rows.
template <class Op, int team, int width>
__global__ void __launch_bounds__(block_team)
    reduce_rows(Op op, std::int64_t rows, std::int64_t reduced, std::int64_t chunk,
                typename Op::Value* partials) {
  const std::int64_t row = team_row<team>();
  if (row >= rows) return;
  const std::int64_t begin = blockIdx.y * chunk,
                     end = begin + chunk < reduced ? begin + chunk : reduced;
  typename Op::Value values[width];
#pragma unroll
  for (int k = 0; k < width; ++k) values[k] = op.none();
#pragma unroll 4
  for (std::int64_t r = begin + static_cast<int>(threadIdx.x) * width; r < end; r += team * width)
    op.template take<true>(values, row, r, 0);
#pragma unroll
  for (int k = 1; k < width; ++k) values[0] = op.both(values[0], values[k]);
  const auto total = combine_team<team>(values[0], [&](auto a, auto b) { return op.both(a, b); });
  if (threadIdx.x != 0) return;
  if (partials == nullptr) {
    op.put(row, total);
  } else {
    partials[blockIdx.y * rows + row] = total;
  }
}

/// A thread for `width` columns and every eighth of the chunk's rows. Partial results are chunks x
/// columns.
template <class Op, int width>
__global__ void __launch_bounds__(block_team)
    reduce_columns(Op op, std::int64_t columns, std::int64_t reduced, std::int64_t inner,
                   std::int64_t chunk, typename Op::Value* partials) {
  using Value = typename Op::Value;
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * warp + threadIdx.x) * width,
                     begin = blockIdx.y * chunk,
                     end = begin + chunk < reduced ? begin + chunk : reduced;
  Value values[width];
#pragma unroll
  for (int k = 0; k < width; ++k) values[k] = op.none();
  if (column < columns) {
    const std::int64_t o = column / inner, i = column % inner;
#pragma unroll 4
    for (std::int64_t r = begin + threadIdx.y; r < end; r += column_rows)
      op.template take<false>(values, o, r, i);
  }
  __shared__ Value all[column_rows][width][warp];
#pragma unroll
  for (int k = 0; k < width; ++k) all[threadIdx.y][k][threadIdx.x] = values[k];
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
#pragma unroll
  for (int k = 0; k < width; ++k) {
#pragma unroll
    for (int y = 1; y < column_rows; ++y) values[k] = op.both(values[k], all[y][k][threadIdx.x]);
    if (partials == nullptr) {
      op.put(column + k, values[k]);
    } else {
      partials[blockIdx.y * columns + column + k] = values[k];
    }
  }
}

/// What another op left, chunks x results.
template <class Op>
struct Partials {
  using Value = typename Op::Value;
  Op op;
  const Value* values;
  std::int64_t results;

  __device__ Value none() const { return op.none(); }
  __device__ Value both(Value a, Value b) const { return op.both(a, b); }
  template <bool row, int n>
  __device__ void take(Value (&to)[n], std::int64_t, std::int64_t chunk, std::int64_t i) const {
#pragma unroll
    for (int k = 0; k < n; ++k) to[k] = op.both(to[k], values[chunk * results + i + k]);
  }
  __device__ void put(std::int64_t result, Value value) const { op.put(result, value); }
};

/// How a reduction is cut up on a device.
struct Chunks {
  std::int64_t chunk, count;
  /// What `reduce` needs of workspace for an Op with this Value.
  template <class Value>
  std::int64_t workspace_bytes(const Extents& e) const {
    return count > 1 ? count * e.results() * static_cast<std::int64_t>(sizeof(Value)) : 0;
  }
};
inline Chunks chunks_of(const Context& context, const Extents& e, int width) {
  const bool rows = e.inner == 1;
  const std::int64_t blocks =
      rows ? ceil_divide(e.results(), e.reduced <= 1024 ? block_team / warp : 1)
           : ceil_divide(e.results(), std::int64_t{warp} * width);
  const std::int64_t wanted = 4 * context.properties.multiProcessorCount,
                     least = rows ? block_team * width * 4 : column_rows * 8;
  std::int64_t count = 1;
  if (2 * blocks < wanted) count = ceil_divide(wanted, blocks > 0 ? blocks : 1);
  if (count > e.reduced / least) count = e.reduced / least;
  if (count < 1) count = 1;
  const std::int64_t chunk = ceil_divide(ceil_divide(e.reduced, count), width) * width;
  return {chunk, ceil_divide(e.reduced, chunk)};
}

/// `packs`: elements can be loaded `width` at a time. Workspace as Chunks says.
template <int width, class Op>
void reduce(Context& context, const Op& op, const Extents& e, const Chunks& chunks, bool packs,
            void* workspace) {
  using Value = typename Op::Value;
  if (e.results() == 0) return;
  auto* partials = chunks.count > 1 ? static_cast<Value*>(workspace) : nullptr;
  const auto count = static_cast<unsigned>(chunks.count);
  if (e.inner == 1) {
    with_team<width>(e.reduced, packs, [&]<int team, int n>() {
      launch<&reduce_rows<Op, team, n>>(dim3(team_grid<team>(e.outer).x, count), team_block<team>(),
                                        context.stream, op, e.outer, e.reduced, chunks.chunk,
                                        partials);
    });
  } else {
    const auto columns = [&]<int n>() {
      launch<&reduce_columns<Op, n>>(
          dim3(static_cast<unsigned>(ceil_divide(e.results(), warp * n)), count),
          dim3(warp, column_rows), context.stream, op, e.results(), e.reduced, e.inner,
          chunks.chunk, partials);
    };
    packs ? columns.template operator()<width>() : columns.template operator()<1>();
  }
  if (partials == nullptr) return;
  launch<&reduce_columns<Partials<Op>, 1>>(
      static_cast<unsigned>(ceil_divide(e.results(), warp)), dim3(warp, column_rows),
      context.stream, Partials<Op>{op, partials, e.results()}, e.results(), chunks.count,
      e.results(), chunks.count, static_cast<Value*>(nullptr));
}

}  // namespace forecost::cuda
