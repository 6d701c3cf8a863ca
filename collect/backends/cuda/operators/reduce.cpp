#include "data/operators/reduce.hpp"

#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

namespace forecost::cuda {
namespace {

/// The reference is told which element was the largest: the first that equals the result.
void show_places(Operands& operands, const Reduce& r) {
  const auto &x = operands.at("src"), &y = operands.at("dst");
  std::vector<double> places(y.size());
  for (std::int64_t o = 0; o < r.outer; ++o)
    for (std::int64_t i = 0; i < r.inner; ++i) {
      const auto result = static_cast<std::size_t>(o * r.inner + i);
      for (std::int64_t at = r.reduced; at-- > 0;) {
        if (x[static_cast<std::size_t>((o * r.reduced + at) * r.inner + i)] == y[result]) {
          places[result] = static_cast<double>(at);
        }
      }
    }
  operands["index"] = std::move(places);
}

}  // namespace

void describe_reduce(Recipe& recipe, const Task& task) {
  const ReduceShape s = reduce_shape(task.layer);
  const bool features = s.axis == ReduceAxis::features;
  Reduce reduce{};
  reduce.element = recipe.element();
  reduce.outer = features ? s.batch * s.rows : s.batch;
  reduce.reduced = features ? s.features : s.rows;
  reduce.inner = features ? 1 : s.features;
  reduce.reduction = static_cast<Reduction>(s.operation);  // in the same order
  const auto whole = recipe.plain(s.batch * s.rows * s.features),
             reduced = recipe.plain(reduce.outer * reduce.inner);
  if (task.pass == Pass::forward) {
    recipe.run(primitive(reduce), {recipe.input("src", whole), recipe.result("dst", reduced)});
    return;
  }
  auto x = Recipe::none, y = Recipe::none;
  if (s.operation == ReduceOperation::max) {
    x = recipe.input("src", whole);
    y = recipe.intermediate(reduced, "dst");
    recipe.prepare(recipe.plan(primitive(reduce)), {x, y});
    recipe.show([reduce](Operands& operands) { show_places(operands, reduce); });
  }
  reduce.direction = Direction::backward;
  recipe.run(primitive(reduce),
             {x, y, recipe.input("diff_dst", reduced), recipe.result("diff_src", whole)});
}

}  // namespace forecost::cuda
