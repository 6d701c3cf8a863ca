#include "data/operators/softmax.hpp"

#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"

namespace forecost::cpu {

void describe_softmax(Recipe& recipe, const Task& task) {
  const SoftmaxShape s = softmax_shape(task.layer);
  const dnnl::engine& engine = recipe.engine();
  const dnnl::primitive_attr attributes = attributes_of();
  const dnnl::memory::desc rows = plain({s.batch * s.rows, s.features}, data_type_of(task.dtype));
  constexpr auto algorithm = dnnl::algorithm::softmax_accurate;
  const auto forward = describe<SoftmaxForward>(
      engine, attributes, dnnl::prop_kind::forward_training, algorithm, rows, rows, 1);

  if (task.pass == Pass::forward) {
    recipe.run(recipe.primitive(forward, {{DNNL_ARG_SRC, recipe.input("src", rows)},
                                          {DNNL_ARG_DST, recipe.result("dst", rows)}}));
    return;
  }
  const float half = 0.5F / static_cast<float>(s.features);  // about what forward leaves
  recipe.run(recipe.primitive(describe_backward<SoftmaxBackward>(engine, attributes, forward,
                                                                 algorithm, rows, rows, rows, 1),
                              {{DNNL_ARG_DST, recipe.input("dst", rows, {half, half})},
                               {DNNL_ARG_DIFF_DST, recipe.input("diff_dst", rows)},
                               {DNNL_ARG_DIFF_SRC, recipe.result("diff_src", rows)}}));
}

}  // namespace forecost::cpu
