#pragma once

#include "collect/backends/cuda/recipe.hpp"
#include "data/operators/window.hpp"

namespace forecost::cuda {

/// A convolution in the task's dtype, by its policy, in the run's layout. cuDNN pads opposite sides
/// alike: where a layer does not, its image is first copied into one with zeros around it, as
/// frameworks do.
class PaddedConvolution {
 public:
  PaddedConvolution(Recipe& recipe, const Image& in, std::int64_t out_channels, std::int64_t groups,
                    const WindowSide& vertical, const WindowSide& horizontal);

  Recipe::Shape image() const { return recipe_.image(in_.n, in_.c, in_.h * in_.w); }
  /// out_channels x in_channels / groups x kernel.
  Recipe::Shape weights() const;

  void forward(Recipe::Id x, Recipe::Id w, Recipe::Id y) const;
  void backward_data(Recipe::Id w, Recipe::Id dy, Recipe::Id dx) const;
  void backward_weights(Recipe::Id x, Recipe::Id dy, Recipe::Id dw) const;

 private:
  Convolution plan_of(Direction direction) const;
  bool uneven() const { return padded_.h != in_.h || padded_.w != in_.w; }
  Recipe::Id padded_image() const;
  Primitive pad(Direction direction) const;

  Recipe& recipe_;
  Image in_, padded_;  ///< the same unless padding is uneven
  std::int64_t out_channels_, groups_;
  WindowSide vertical_, horizontal_;
};

}  // namespace forecost::cuda
