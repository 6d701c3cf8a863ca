#include <cmath>

#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"

// dense, conv2d and conv_transpose2d, with bias and fused activation.

namespace forecost::cpu {

void describe_affine(Recipe& recipe, const Task& task) {
  const Affine layer = affine_of(task.layer, task.dtype);
  const dnnl::engine& engine = recipe.engine();
  const dnnl::memory::desc any_src = any(layer.src, layer.type),
                           any_dst = any(layer.dst, layer.type);
  // Sums of fan_in products stay of the size of their terms.
  const Uniform weight_values{static_cast<float>(std::sqrt(3 / layer.fan_in))};
  using Query = dnnl::query;

  if (task.pass == Pass::forward) {
    const auto forward =
        describe_forward(engine, layer, dnnl::prop_kind::forward_inference, any_src);
    std::map<int, Recipe::Id> operands{
        {DNNL_ARG_SRC, recipe.input("src", forward.query_md(Query::src_md))},
        {DNNL_ARG_WEIGHTS,
         recipe.input("weights", forward.query_md(Query::weights_md), weight_values)},
        {DNNL_ARG_DST, recipe.result("dst", forward.query_md(Query::dst_md))}};
    if (!layer.bias.empty()) {
      operands[DNNL_ARG_BIAS] = recipe.input("bias", forward.query_md(Query::weights_md, 1));
    }
    recipe.run(recipe.primitive(forward, operands));
    return;
  }

  if (task.pass == Pass::backward_data) {
    const auto backward = describe_backward_data(engine, layer, any_dst);
    const dnnl::memory::desc gradient = backward.query_md(Query::diff_dst_md);
    // The gradient with respect to the sum before the activation.
    Recipe::Id inner{};
    if (layer.activation != Activation::none) {
      const auto y = recipe.input("dst", gradient), dy = recipe.input("diff_dst", gradient);
      inner = recipe.intermediate(gradient);
      recipe.run(recipe.primitive(
          describe_activation_backward(engine, layer.activation, gradient),
          {{DNNL_ARG_DST, y}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, inner}}));
    } else {
      inner = recipe.input("diff_dst", gradient);
    }
    const auto weights =
        recipe.input("weights", backward.query_md(Query::weights_md), weight_values);
    const auto dx = recipe.result("diff_src", backward.query_md(Query::diff_src_md));
    recipe.run(recipe.primitive(
        backward,
        {{DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_DST, inner}, {DNNL_ARG_DIFF_SRC, dx}}));
    return;
  }

  // backward_weights begins at the gradient before the activation.
  const auto backward = describe_backward_weights(engine, layer, any_src, any_dst);
  std::map<int, Recipe::Id> operands{
      {DNNL_ARG_SRC, recipe.input("src", backward.query_md(Query::src_md))},
      {DNNL_ARG_DIFF_DST, recipe.input("diff_dst", backward.query_md(Query::diff_dst_md))},
      {DNNL_ARG_DIFF_WEIGHTS,
       recipe.result("diff_weights", backward.query_md(Query::diff_weights_md))}};
  if (!layer.bias.empty()) {
    operands[DNNL_ARG_DIFF_BIAS] =
        recipe.result("diff_bias", backward.query_md(Query::diff_weights_md, 1));
  }
  recipe.run(recipe.primitive(backward, operands));
}

}  // namespace forecost::cpu
