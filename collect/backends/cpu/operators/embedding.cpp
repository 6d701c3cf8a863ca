#include "data/operators/embedding.hpp"

#include <cstring>
#include <span>

#include "collect/backends/cpu/kernels.hpp"
#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"

namespace forecost::cpu {
namespace {

template <class T>
FORECOST_CLONES void add_row(const T* __restrict__ from, T* __restrict__ to, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) store(to[i], load(to[i]) + load(from[i]));
}

template <class T>
void gather(std::span<const std::int64_t> ids, const T* table, T* y, std::size_t features) {
  split_rows(ids.size(), features, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      std::memcpy(y + i * features, table + static_cast<std::size_t>(ids[i]) * features,
                  features * sizeof(T));
    }
  });
}

/// Each thread owns rows of the table and adds to those in the order of the ids, so that results
/// do not depend on who is faster, and nobody waits.
template <class T>
void scatter_add(std::span<const std::int64_t> ids, const T* dy, T* gradient, std::size_t entries,
                 std::size_t features) {
  split_rows(entries, features, [&](std::size_t, std::size_t begin, std::size_t end) {
    std::memset(gradient + begin * features, 0, (end - begin) * features * sizeof(T));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto id = static_cast<std::size_t>(ids[i]);
      if (id - begin < end - begin) add_row(dy + i * features, gradient + id * features, features);
    }
  });
}

template <class T>
void describe(Recipe& recipe, const Task& task) {
  const EmbeddingShape s = embedding_shape(task.layer);
  const std::int64_t count = s.batch * s.length;
  const auto features = static_cast<std::size_t>(s.features),
             entries = static_cast<std::size_t>(s.entries), n = static_cast<std::size_t>(count);
  const dnnl::memory::data_type type = data_type_of(task.dtype);
  const dnnl::memory::desc table = plain({s.entries, s.features}, type),
                           rows = plain({count, s.features}, type);
  const auto ids = recipe.indices("ids", count, s.entries);

  if (task.pass == Pass::forward) {
    const auto from = recipe.input("weights", table), to = recipe.result("dst", rows);
    recipe.run(own_code("gather", [=](const Bound& bound) {
      return [=, ids = std::span(bound.data<const std::int64_t>(ids), n),
              from = bound.data<const T>(from),
              to = bound.data<T>(to)] { gather(ids, from, to, features); };
    }));
    return;
  }
  const auto dy = recipe.input("diff_dst", rows), gradient = recipe.result("diff_weights", table);
  recipe.run(own_code("scatter_add", [=](const Bound& bound) {
    return
        [=, ids = std::span(bound.data<const std::int64_t>(ids), n), dy = bound.data<const T>(dy),
         gradient = bound.data<T>(gradient)] { scatter_add(ids, dy, gradient, entries, features); };
  }));
}

}  // namespace

void describe_embedding(Recipe& recipe, const Task& task) {
  with_type(task.dtype, [&]<class T>() { describe<T>(recipe, task); });
}

}  // namespace forecost::cpu
