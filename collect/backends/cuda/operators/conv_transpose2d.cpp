#include "data/operators/conv_transpose2d.hpp"

#include <cmath>

#include "collect/backends/cuda/operators/convolution.hpp"
#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

// The convolution that it is the gradient of, each direction for another: its image is this
// layer's output.

namespace forecost::cuda {
namespace {

/// From in_channels x out_channels / groups x kernel, as it lies, to what the reference has:
/// out_channels x in_channels / groups x kernel.
void swap_channels(const ConvTranspose2dShape& s, std::vector<double>& weights) {
  const std::int64_t ic_group = s.in_channels / s.groups, oc_group = s.out_channels / s.groups,
                     taps = s.kernel_h * s.kernel_w;
  std::vector<double> swapped(weights.size());
  for (std::int64_t ic = 0; ic < s.in_channels; ++ic)
    for (std::int64_t o = 0; o < oc_group; ++o)
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const std::int64_t oc = ic / ic_group * oc_group + o;
        swapped[static_cast<std::size_t>((oc * ic_group + ic % ic_group) * taps + tap)] =
            weights[static_cast<std::size_t>((ic * oc_group + o) * taps + tap)];
      }
  weights = std::move(swapped);
}

}  // namespace

void describe_conv_transpose2d(Recipe& recipe, const Task& task) {
  const ConvTranspose2dShape s = conv_transpose2d_shape(task.layer);
  const PaddedConvolution conv(recipe, {s.batch, s.out_channels, s.out_h(), s.out_w()},
                               s.in_channels, s.groups, s.vertical(), s.horizontal());
  const std::int64_t spatial = s.out_h() * s.out_w();
  const auto input = recipe.image(s.batch, s.in_channels, s.in_h * s.in_w), output = conv.image(),
             weights = conv.weights(), bias = recipe.plain(s.out_channels);
  const double fan_in = static_cast<double>(s.in_channels / s.groups * s.kernel_h * s.kernel_w) /
                        static_cast<double>(s.stride_h * s.stride_w);
  const Recipe::Uniform weight_values{std::sqrt(3 / fan_in)};
  recipe.show([s](Operands& operands) {
    for (const char* name : {"weights", "diff_weights"}) {
      if (const auto found = operands.find(name); found != operands.end()) {
        swap_channels(s, found->second);
      }
    }
  });

  if (task.pass == Pass::forward) {
    const auto x = recipe.input("src", input), w = recipe.input("weights", weights, weight_values),
               y = recipe.result("dst", output);
    conv.backward_data(w, x, y);
    if (s.bias) {
      recipe.run(primitive(bias_activation(recipe, Direction::forward, recipe.layout(), s.batch,
                                           s.out_channels, spatial, Function::none)),
                 {y, recipe.input("bias", bias)});
    }
  } else if (task.pass == Pass::backward_data) {
    const auto w = recipe.input("weights", weights, weight_values),
               dy = recipe.input("diff_dst", output);
    conv.forward(dy, w, recipe.result("diff_src", input));
  } else {
    const auto x = recipe.input("src", input), dy = recipe.input("diff_dst", output);
    conv.backward_weights(dy, x, recipe.result("diff_weights", weights));
    if (s.bias) {
      bias_gradient(recipe, dy, recipe.result("diff_bias", bias), recipe.layout(), s.batch,
                    s.out_channels, spatial);
    }
  }
}

}  // namespace forecost::cuda
