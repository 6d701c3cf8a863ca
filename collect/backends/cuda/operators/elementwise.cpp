#include "data/operators/elementwise.hpp"

#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

namespace forecost::cuda {

void describe_elementwise(Recipe& recipe, const Task& task) {
  const ElementwiseShape s = elementwise_shape(task.layer);
  const bool both = s.operand == ElementwiseOperand::tensor,
             power = s.operation == ElementwiseOperation::power,
             divide = s.operation == ElementwiseOperation::divide,
             multiply = s.operation == ElementwiseOperation::multiply;
  Elementwise elementwise{};
  elementwise.element = recipe.element();
  elementwise.count = s.batch * s.features;
  elementwise.operation = static_cast<Operation>(s.operation);  // in the same order
  elementwise.b_is_scalar = !both;
  elementwise.scalar = elementwise_scalar;
  const auto values = recipe.plain(elementwise.count);
  // Where a root, a logarithm or a division asks for it.
  constexpr Recipe::Uniform positive{1, 1.5};
  const auto first_operand = [&] {
    return recipe.input("src", values, power ? positive : Recipe::Uniform{});
  };
  const auto second_operand = [&] {
    return recipe.input("other", values, power || divide ? positive : Recipe::Uniform{});
  };
  if (task.pass == Pass::forward) {
    const auto a = first_operand(), b = both ? second_operand() : Recipe::none;
    recipe.run(primitive(elementwise), {a, b, recipe.result("dst", values)});
    return;
  }
  // As data/operators/elementwise.cpp counts them.
  const auto a = power || (both && multiply) ? first_operand() : Recipe::none,
             b = both && (power || divide || multiply) ? second_operand() : Recipe::none,
             y = both && (power || divide) ? recipe.input("dst", values, positive) : Recipe::none;
  elementwise.direction = Direction::backward;
  recipe.run(primitive(elementwise),
             {a, b, y, recipe.input("diff_dst", values), recipe.result("diff_src", values),
              both ? recipe.result("diff_other", values) : Recipe::none});
}

}  // namespace forecost::cuda
