#include <fmt/format.h>

#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

// One optimizer step over all parameter tensors of a layer, a kernel for each, whatever the
// operator.

namespace forecost::cuda {

void describe_update(Recipe& recipe, const Task& task) {
  const int states = optimizer_cost(task.optimizer).state_tensors;
  int number = 0;
  for (const std::int64_t elements : task.layer.op().parameter_tensors(task.layer)) {
    const auto values = recipe.plain(elements), state = Recipe::f32(elements);
    const auto parameters = recipe.input(fmt::format("weights_{}", number), values),
               gradient = recipe.input(fmt::format("diff_weights_{}", number), values, {0.01}),
               first = states > 0 ? recipe.intermediate(state) : Recipe::none,
               second = states > 1 ? recipe.intermediate(state) : Recipe::none;
    ++number;
    recipe.run(primitive(OptimizerStep{static_cast<std::int32_t>(task.optimizer), recipe.element(),
                                       elements}),
               {parameters, gradient, first, second});
  }
  recipe.changes_operands();
}

}  // namespace forecost::cuda
