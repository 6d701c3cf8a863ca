#include "data/operators/layer_norm.hpp"

#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

namespace forecost::cuda {

void describe_layer_norm(Recipe& recipe, const Task& task) {
  const LayerNormShape s = layer_norm_shape(task.layer);
  LayerNorm norm{};
  norm.element = recipe.element();
  norm.rows = s.batch * s.rows;
  norm.features = s.features;
  norm.affine = s.affine;
  norm.epsilon = 1e-5;  // what frameworks take when a user gives none
  const auto rows = recipe.plain(norm.rows * s.features), gains = recipe.plain(s.features),
             statistics = Recipe::f32(norm.rows);
  const auto x = recipe.input("src", rows);
  const auto scale = s.affine ? recipe.input("scale", gains, {0.5, 1}) : Recipe::none,
             shift = s.affine ? recipe.input("shift", gains) : Recipe::none;
  const auto mean = recipe.intermediate(statistics), deviation = recipe.intermediate(statistics);
  const auto forward = recipe.plan(primitive(norm));
  if (task.pass == Pass::forward) {
    recipe.run(forward, {x, scale, shift, recipe.result("dst", rows), mean, deviation});
    return;
  }
  const auto dx = recipe.result("diff_src", rows);
  // For its statistics; its output goes where the gradient will be.
  recipe.prepare(forward, {x, scale, shift, dx, mean, deviation});
  norm.direction = Direction::backward;
  const auto gradient = [&](const char* name) {
    return s.affine ? recipe.result(name, gains) : Recipe::none;
  };
  const auto dscale = gradient("diff_scale"), dshift = gradient("diff_shift");
  recipe.run(primitive(norm),
             {x, recipe.input("diff_dst", rows), scale, mean, deviation, dx, dscale, dshift});
}

}  // namespace forecost::cuda
