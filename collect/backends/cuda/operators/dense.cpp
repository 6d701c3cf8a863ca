#include "data/operators/dense.hpp"

#include <cmath>

#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

// y = f(x W' + b), weights out_features x in_features as frameworks keep them. The bias and relu
// are cuBLASLt's epilogue; another activation is a kernel of its own.

namespace forecost::cuda {

void describe_dense(Recipe& recipe, const Task& task) {
  const DenseShape s = dense_shape(task.layer);
  const Function function = function_of(s.activation);
  const auto input = recipe.plain(s.batch * s.in_features),
             output = recipe.plain(s.batch * s.out_features),
             weights = recipe.plain(s.out_features * s.in_features),
             bias = recipe.plain(s.out_features);
  // Sums of in_features products stay of the size of their terms.
  const Recipe::Uniform weight_values{std::sqrt(3.0 / static_cast<double>(s.in_features))};

  if (task.pass == Pass::forward) {
    const auto x = recipe.input("src", input), w = recipe.input("weights", weights, weight_values),
               b = s.bias ? recipe.input("bias", bias) : Recipe::none,
               y = recipe.result("dst", output);
    const bool relu = function == Function::relu;
    Gemm gemm = gemm_of(recipe, 1, s.batch, s.out_features, s.in_features);
    gemm.transpose_b = 1;
    gemm.epilogue = relu ? (s.bias ? Epilogue::relu_bias : Epilogue::relu)
                         : (s.bias ? Epilogue::bias : Epilogue::none);
    recipe.run(primitive(gemm), {x, w, y, b});
    if (function != Function::none && !relu) {
      recipe.run(primitive(bias_activation(recipe, Direction::forward, Layout::nhwc, s.batch,
                                           s.out_features, 1, function)),
                 {y, Recipe::none});
    }
    return;
  }

  if (task.pass == Pass::backward_data) {
    const auto w = recipe.input("weights", weights, weight_values);
    const auto dy = recipe.input("diff_dst", output);
    auto dz = dy;
    if (function != Function::none) {
      const auto y = recipe.input("dst", output);
      dz = recipe.intermediate(output);
      recipe.run(primitive(bias_activation(recipe, Direction::backward, Layout::nhwc, s.batch,
                                           s.out_features, 1, function)),
                 {y, dy, dz});
    }
    recipe.run(primitive(gemm_of(recipe, 1, s.batch, s.in_features, s.out_features)),
               {dz, w, recipe.result("diff_src", input), Recipe::none});
    return;
  }

  // backward_weights begins at the gradient before the activation.
  const auto x = recipe.input("src", input), dz = recipe.input("diff_dst", output);
  Gemm gemm = gemm_of(recipe, 1, s.out_features, s.in_features, s.batch);
  gemm.transpose_a = 1;
  recipe.run(primitive(gemm), {dz, x, recipe.result("diff_weights", weights), Recipe::none});
  if (s.bias) {
    bias_gradient(recipe, dz, recipe.result("diff_bias", bias), Layout::nhwc, s.batch,
                  s.out_features, 1);
  }
}

}  // namespace forecost::cuda
