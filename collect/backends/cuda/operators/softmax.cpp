#include "data/operators/softmax.hpp"

#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

namespace forecost::cuda {

void describe_softmax(Recipe& recipe, const Task& task) {
  const SoftmaxShape s = softmax_shape(task.layer);
  Softmax softmax{Direction::forward, recipe.element(), s.batch * s.rows, s.features, 0};
  const auto rows = recipe.plain(softmax.rows * s.features);
  if (task.pass == Pass::forward) {
    recipe.run(primitive(softmax), {recipe.input("src", rows), recipe.result("dst", rows)});
    return;
  }
  softmax.direction = Direction::backward;
  const double half = 0.5 / static_cast<double>(s.features);  // about what forward leaves
  recipe.run(primitive(softmax), {recipe.input("dst", rows, {half, half}),
                                  recipe.input("diff_dst", rows), recipe.result("diff_src", rows)});
}

}  // namespace forecost::cuda
