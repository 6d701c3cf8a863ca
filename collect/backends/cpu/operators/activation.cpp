#include "data/operators/activation.hpp"

#include "collect/backends/cpu/kernels.hpp"
#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"
#include "core/elementwise_rules.hpp"

namespace forecost::cpu {
namespace {

template <class Rule, class T>
FORECOST_CLONES void gradient_loop(const T* __restrict__ dy, const T* __restrict__ y,
                                   T* __restrict__ dx, std::size_t begin, std::size_t end) {
#pragma omp simd
  for (std::size_t i = begin; i < end; ++i) store(dx[i], Rule::gradient(load(dy[i]), load(y[i])));
}

/// Of those whose gradient frameworks write in the output, with loops of their own, as here: the
/// library's takes twice as long for 4 MB tensors.
template <class Rule>
void describe_gradient(Recipe& recipe, const Task& task, const dnnl::memory::desc& values) {
  const auto dy = recipe.input("diff_dst", values), y = recipe.input("dst", values),
             dx = recipe.result("diff_src", values);
  const auto elements = static_cast<std::size_t>(values.dims()[0]);
  with_type(task.dtype, [&]<class T>() {
    recipe.run(own_code("gradient", [=](const Bound& bound) {
      return [=, dy = bound.data<T>(dy), y = bound.data<T>(y), dx = bound.data<T>(dx)] {
        split(elements, [&](std::size_t, std::size_t begin, std::size_t end) {
          gradient_loop<Rule>(dy, y, dx, begin, end);
        });
      };
    }));
  });
}

struct Eltwise {
  dnnl::algorithm algorithm;
  float alpha;
};
Eltwise eltwise_of(ActivationFunction function) {
  switch (function) {
    case ActivationFunction::relu:
      return {dnnl::algorithm::eltwise_relu, 0};
    case ActivationFunction::tanh:
      return {dnnl::algorithm::eltwise_tanh, 0};
    case ActivationFunction::sigmoid:
      return {dnnl::algorithm::eltwise_logistic, 0};
    case ActivationFunction::gelu:
      return {dnnl::algorithm::eltwise_gelu_erf, 0};
    case ActivationFunction::silu:
      return {dnnl::algorithm::eltwise_swish, 1};
  }
  throw std::logic_error("an activation has no such function");
}

}  // namespace

void describe_activation(Recipe& recipe, const Task& task) {
  const ActivationShape s = activation_shape(task.layer);
  const dnnl::memory::desc values = plain({s.batch * s.features}, data_type_of(task.dtype));
  if (task.pass == Pass::backward) {
    switch (s.function) {
      case ActivationFunction::relu:
        return describe_gradient<activation_rules::Relu>(recipe, task, values);
      case ActivationFunction::tanh:
        return describe_gradient<activation_rules::Tanh>(recipe, task, values);
      case ActivationFunction::sigmoid:
        return describe_gradient<activation_rules::Sigmoid>(recipe, task, values);
      default:
        break;
    }
  }

  const dnnl::engine& engine = recipe.engine();
  const dnnl::primitive_attr attributes = attributes_of();
  const auto [algorithm, alpha] = eltwise_of(s.function);
  const auto forward = describe_eltwise(engine, attributes, algorithm, values, alpha);
  const auto x = recipe.input("src", values, {2});
  if (task.pass == Pass::forward) {
    recipe.run(recipe.primitive(forward,
                                {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, recipe.result("dst", values)}}));
    return;
  }
  recipe.run(recipe.primitive(
      describe_eltwise_backward(engine, attributes, forward, algorithm, values, alpha),
      {{DNNL_ARG_SRC, x},
       {DNNL_ARG_DIFF_DST, recipe.input("diff_dst", values)},
       {DNNL_ARG_DIFF_SRC, recipe.result("diff_src", values)}}));
}

}  // namespace forecost::cpu
