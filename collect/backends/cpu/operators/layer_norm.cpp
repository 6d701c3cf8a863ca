#include "data/operators/layer_norm.hpp"

#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"

namespace forecost::cpu {

void describe_layer_norm(Recipe& recipe, const Task& task) {
  const LayerNormShape s = layer_norm_shape(task.layer);
  const dnnl::engine& engine = recipe.engine();
  const dnnl::primitive_attr attributes = attributes_of();
  const dnnl::memory::desc rows = plain({s.batch * s.rows, s.features}, data_type_of(task.dtype)),
                           gains = plain({s.features}, dnnl::memory::data_type::f32);
  constexpr float epsilon = 1e-5F;  // what frameworks take when a user gives none
  const auto flags =
      s.affine ? dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift
               : dnnl::normalization_flags::none;
  const auto forward = describe_layer_norm(engine, attributes, rows, epsilon, flags);

  const auto x = recipe.input("src", rows);
  const auto mean = recipe.intermediate(forward.mean_desc()),
             variance = recipe.intermediate(forward.variance_desc());
  std::map<int, Recipe::Id> forward_operands{
      {DNNL_ARG_SRC, x}, {DNNL_ARG_MEAN, mean}, {DNNL_ARG_VARIANCE, variance}};
  if (s.affine) {
    forward_operands[DNNL_ARG_SCALE] = recipe.input("scale", gains, {0.5F, 1});
    forward_operands[DNNL_ARG_SHIFT] = recipe.input("shift", gains);
  }
  if (task.pass == Pass::forward) {
    forward_operands[DNNL_ARG_DST] = recipe.result("dst", rows);
    recipe.run(recipe.primitive(forward, forward_operands));
    return;
  }

  std::map<int, Recipe::Id> operands = forward_operands;
  operands[DNNL_ARG_DIFF_DST] = recipe.input("diff_dst", rows);
  operands[DNNL_ARG_DIFF_SRC] = recipe.result("diff_src", rows);
  if (s.affine) {
    if (!layer_norm_gradient_takes_shift) operands.erase(DNNL_ARG_SHIFT);
    operands[DNNL_ARG_DIFF_SCALE] = recipe.result("diff_scale", gains);
    operands[DNNL_ARG_DIFF_SHIFT] = recipe.result("diff_shift", gains);
  }
  // For its statistics; what it writes besides goes where the gradient will be.
  forward_operands[DNNL_ARG_DST] = operands[DNNL_ARG_DIFF_SRC];
  recipe.prepare(recipe.primitive(forward, forward_operands));
  recipe.run(
      recipe.primitive(describe_layer_norm_backward(
                           engine, attributes, forward,
                           s.affine ? dnnl::prop_kind::backward : dnnl::prop_kind::backward_data,
                           rows, epsilon, flags),
                       operands));
}

}  // namespace forecost::cpu
