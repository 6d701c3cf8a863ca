#include "data/operators/activation.hpp"

#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"

namespace forecost::cpu {
namespace {

/// What a gradient is computed from is what frameworks keep: of relu, tanh and sigmoid the output,
/// of the others the input.
struct Eltwise {
  dnnl::algorithm forward, backward;
  bool from_output;
  float alpha;
};
Eltwise eltwise_of(ActivationFunction function) {
  using enum dnnl::algorithm;
  switch (function) {
    case ActivationFunction::relu:
      return {eltwise_relu, eltwise_relu_use_dst_for_bwd, true, 0};
    case ActivationFunction::tanh:
      return {eltwise_tanh, eltwise_tanh_use_dst_for_bwd, true, 0};
    case ActivationFunction::sigmoid:
      return {eltwise_logistic, eltwise_logistic_use_dst_for_bwd, true, 0};
    case ActivationFunction::gelu:
      return {eltwise_gelu_erf, eltwise_gelu_erf, false, 0};
    case ActivationFunction::silu:
      return {eltwise_swish, eltwise_swish, false, 1};
  }
  throw std::logic_error("an activation has no such function");
}

}  // namespace

void describe_activation(Recipe& recipe, const Task& task) {
  const ActivationShape s = activation_shape(task.layer);
  const Eltwise eltwise = eltwise_of(s.function);
  const dnnl::engine& engine = recipe.engine();
  const dnnl::primitive_attr attributes = attributes_of();
  const dnnl::memory::desc values = plain({s.batch * s.features}, data_type_of(task.dtype));

  if (task.pass == Pass::forward) {
    recipe.run(recipe.primitive(
        describe_eltwise(engine, attributes, eltwise.forward, values, eltwise.alpha),
        {{DNNL_ARG_SRC, recipe.input("src", values, {2})},
         {DNNL_ARG_DST, recipe.result("dst", values)}}));
    return;
  }
  std::map<int, Recipe::Id> operands{{DNNL_ARG_DIFF_DST, recipe.input("diff_dst", values)},
                                     {DNNL_ARG_DIFF_SRC, recipe.result("diff_src", values)}};
  if (eltwise.from_output) {
    operands[DNNL_ARG_DST] = recipe.input("dst", values);
  } else {
    operands[DNNL_ARG_SRC] = recipe.input("src", values, {2});
  }
  recipe.run(recipe.primitive(
      describe_eltwise_backward(
          engine, attributes,
          describe_eltwise(engine, attributes, eltwise.backward, values, eltwise.alpha),
          eltwise.backward, values, eltwise.alpha),
      operands));
}

}  // namespace forecost::cpu
