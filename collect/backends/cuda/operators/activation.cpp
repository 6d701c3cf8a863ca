#include "data/operators/activation.hpp"

#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

namespace forecost::cuda {

void describe_activation(Recipe& recipe, const Task& task) {
  const ActivationShape s = activation_shape(task.layer);
  const std::int64_t count = s.batch * s.features;
  const auto values = recipe.plain(count);
  const auto function = static_cast<Function>(s.function);  // in the same order
  const Activation activation{Direction::forward, recipe.element(), count, function};
  if (task.pass == Pass::forward) {
    recipe.run(primitive(activation),
               {recipe.input("src", values, {2}), recipe.result("dst", values)});
    return;
  }
  Activation gradient = activation;
  gradient.direction = Direction::backward;
  const bool takes_x = function == Function::gelu || function == Function::silu;
  const auto x = takes_x ? recipe.input("src", values, {2}) : Recipe::none,
             y = takes_x ? Recipe::none : recipe.input("dst", values);
  recipe.run(primitive(gradient),
             {x, y, recipe.input("diff_dst", values), recipe.result("diff_src", values)});
}

}  // namespace forecost::cuda
