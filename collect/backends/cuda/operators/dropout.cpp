#include "data/operators/dropout.hpp"

#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

namespace forecost::cuda {
namespace {

constexpr double dropped = 0.1;  // as the CPU backend

/// cuDNN keeps what it dropped to itself: an element was kept if its result is not zero.
void show_mask(Operands& operands, const char* result) {
  std::vector<double> mask = operands.at(result);
  for (double& value : mask) value = value != 0 ? 1 : 0;
  operands["mask"] = std::move(mask);
}

}  // namespace

void describe_dropout(Recipe& recipe, const Task& task) {
  const DropoutShape s = dropout_shape(task.layer);
  Dropout dropout{};
  dropout.element = recipe.element();
  dropout.count = s.batch * s.features;
  dropout.probability = dropped;
  dropout.seed = 1;
  const auto values = recipe.plain(dropout.count);
  const auto forward = recipe.plan(primitive(dropout));
  const auto reserve = recipe.intermediate(Recipe::bytes(forward.info.reserve_bytes));
  if (task.pass == Pass::forward) {
    recipe.changes_operands();  // what the library draws from: each run drops others
    const auto x = recipe.input("src", values);
    recipe.run(forward, {x, recipe.result("dst", values), reserve});
    recipe.show([](Operands& operands) { show_mask(operands, "dst"); });
    return;
  }
  const auto dy = recipe.input("diff_dst", values), dx = recipe.result("diff_src", values);
  recipe.prepare(forward, {dy, dx, reserve});  // for its choice
  dropout.direction = Direction::backward;
  recipe.run(primitive(dropout), {dy, dx, reserve});
  recipe.show([](Operands& operands) { show_mask(operands, "diff_src"); });
}

}  // namespace forecost::cuda
