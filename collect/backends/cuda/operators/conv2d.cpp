#include "data/operators/conv2d.hpp"

#include <cmath>

#include "collect/backends/cuda/operators/convolution.hpp"
#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

// cuDNN's convolution, then a kernel of ours that adds the bias and applies the activation, as
// frameworks do it.

namespace forecost::cuda {

void describe_conv2d(Recipe& recipe, const Task& task) {
  const Conv2dShape s = conv2d_shape(task.layer);
  const PaddedConvolution conv(recipe, {s.batch, s.in_channels, s.in_h, s.in_w}, s.out_channels,
                               s.groups, s.vertical(), s.horizontal());
  const Function function = function_of(s.activation);
  const std::int64_t spatial = s.out_h() * s.out_w();
  const auto output = recipe.image(s.batch, s.out_channels, spatial),
             bias = recipe.plain(s.out_channels), weights = conv.weights();
  const double fan_in = static_cast<double>(s.in_channels / s.groups * s.kernel_h * s.kernel_w);
  const Recipe::Uniform weight_values{std::sqrt(3 / fan_in)};

  if (task.pass == Pass::forward) {
    const auto x = recipe.input("src", conv.image()),
               w = recipe.input("weights", weights, weight_values),
               y = recipe.result("dst", output);
    conv.forward(x, w, y);
    if (s.bias || function != Function::none) {
      recipe.run(primitive(bias_activation(recipe, Direction::forward, recipe.layout(), s.batch,
                                           s.out_channels, spatial, function)),
                 {y, s.bias ? recipe.input("bias", bias) : Recipe::none});
    }
    return;
  }

  if (task.pass == Pass::backward_data) {
    const auto w = recipe.input("weights", weights, weight_values),
               dy = recipe.input("diff_dst", output);
    auto dz = dy;
    if (function != Function::none) {
      const auto y = recipe.input("dst", output);
      dz = recipe.intermediate(output);
      recipe.run(primitive(bias_activation(recipe, Direction::backward, recipe.layout(), s.batch,
                                           s.out_channels, spatial, function)),
                 {y, dy, dz});
    }
    conv.backward_data(w, dz, recipe.result("diff_src", conv.image()));
    return;
  }

  // backward_weights begins at the gradient before the activation.
  const auto x = recipe.input("src", conv.image()), dz = recipe.input("diff_dst", output);
  conv.backward_weights(x, dz, recipe.result("diff_weights", weights));
  if (s.bias) {
    bias_gradient(recipe, dz, recipe.result("diff_bias", bias), recipe.layout(), s.batch,
                  s.out_channels, spatial);
  }
}

}  // namespace forecost::cuda
