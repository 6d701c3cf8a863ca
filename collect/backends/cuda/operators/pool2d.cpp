#include "data/operators/pool2d.hpp"

#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

namespace forecost::cuda {

void describe_pool2d(Recipe& recipe, const Task& task) {
  const Pool2dShape s = pool2d_shape(task.layer);
  const WindowSide h = s.vertical(), w = s.horizontal();
  Pooling pooling{};
  pooling.element = recipe.element();
  pooling.layout = recipe.layout();
  pooling.in = {s.batch, s.channels, s.in_h, s.in_w};
  pooling.out_h = s.out_h();
  pooling.out_w = s.out_w();
  pooling.window = {h.kernel, w.kernel, h.stride, w.stride, h.pad_before, w.pad_before, 1, 1};
  pooling.maximum = s.mode == PoolMode::max;
  const auto input = recipe.image(s.batch, s.channels, s.in_h * s.in_w),
             output = recipe.image(s.batch, s.channels, s.out_h() * s.out_w());

  const auto x = recipe.input("src", input);
  if (task.pass == Pass::forward) {
    recipe.run(primitive(pooling), {x, recipe.result("dst", output)});
    return;
  }
  // Of a mean cuDNN asks for x and y too, and does not read them.
  const auto y = recipe.intermediate(output);
  recipe.prepare(recipe.plan(primitive(pooling)), {x, y});
  pooling.direction = Direction::backward;
  recipe.run(primitive(pooling),
             {x, y, recipe.input("diff_dst", output), recipe.result("diff_src", input)});
}

}  // namespace forecost::cuda
