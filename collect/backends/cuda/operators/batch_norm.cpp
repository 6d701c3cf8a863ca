#include "data/operators/batch_norm.hpp"

#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

namespace forecost::cuda {
namespace {

constexpr double epsilon = 1e-5;  // what frameworks take when a user gives none

/// The reference has variances, cuDNN hands on the inverse of deviations.
void show_variance(Operands& operands) {
  const auto found = operands.find("inverse_deviation");
  if (found == operands.end()) return;
  std::vector<double> variance = std::move(found->second);
  operands.erase(found);
  for (double& value : variance) value = 1 / (value * value) - epsilon;
  operands["variance"] = std::move(variance);
}

}  // namespace

void describe_batch_norm(Recipe& recipe, const Task& task) {
  const BatchNormShape s = batch_norm_shape(task.layer);
  BatchNorm norm{};
  norm.training = s.training;
  norm.element = recipe.element();
  norm.layout = recipe.layout();
  norm.image = {s.batch, s.channels, s.height, s.width};
  norm.epsilon = epsilon;
  const auto image = recipe.image(s.batch, s.channels, s.height * s.width),
             channels = Recipe::f32(s.channels);
  const auto x = recipe.input("src", image), scale = recipe.input("scale", channels, {0.5, 1}),
             shift = recipe.input("shift", channels);

  if (!s.training) {
    const auto mean = recipe.input("mean", channels, {0.1}),
               variance = recipe.input("variance", channels, {0.1, 0.3});
    if (task.pass == Pass::forward) {
      recipe.run(primitive(norm), {x, scale, shift, mean, variance, recipe.result("dst", image)});
      return;
    }
    norm.direction = Direction::backward;
    recipe.run(primitive(norm),
               {x, recipe.input("diff_dst", image), scale, mean, variance,
                recipe.result("diff_src", image), recipe.result("diff_scale", channels),
                recipe.result("diff_shift", channels)});
    return;
  }
  const auto forward = recipe.plan(primitive(norm));
  const auto reserve = forward.info.reserve_bytes > 0
                           ? recipe.intermediate(Recipe::bytes(forward.info.reserve_bytes))
                           : Recipe::none;
  recipe.show(&show_variance);
  if (task.pass == Pass::forward) {
    const auto y = recipe.result("dst", image), mean = recipe.result("mean", channels),
               deviation = recipe.result("inverse_deviation", channels);
    recipe.run(forward, {x, scale, shift, y, mean, deviation, reserve});
    return;
  }
  const auto dx = recipe.result("diff_src", image);
  const auto mean = recipe.intermediate(channels, "mean"),
             deviation = recipe.intermediate(channels, "inverse_deviation");
  // For its statistics; its output goes where the gradient will be.
  recipe.prepare(forward, {x, scale, shift, dx, mean, deviation, reserve});
  norm.direction = Direction::backward;
  recipe.run(primitive(norm), {x, recipe.input("diff_dst", image), scale, mean, deviation, dx,
                               recipe.result("diff_scale", channels),
                               recipe.result("diff_shift", channels), reserve});
}

}  // namespace forecost::cuda
