#include "collect/backends/cuda/operators/convolution.hpp"

#include "collect/backends/cuda/primitives.hpp"

namespace forecost::cuda {
namespace {

/// What policy `fixed` takes: algorithm 1 of each direction, the one that uses matrix units and
/// runs everything (implicit precomputed GEMM forward; ALGO_1 backward).
constexpr std::int32_t fixed_algorithm = 1;

}  // namespace

PaddedConvolution::PaddedConvolution(Recipe& recipe, const Image& in, std::int64_t out_channels,
                                     std::int64_t groups, const WindowSide& vertical,
                                     const WindowSide& horizontal)
    : recipe_(recipe),
      in_(in),
      padded_(in),
      out_channels_(out_channels),
      groups_(groups),
      vertical_(vertical),
      horizontal_(horizontal) {
  if (vertical.pad_before != vertical.pad_after || horizontal.pad_before != horizontal.pad_after) {
    padded_.h = vertical.padded();
    padded_.w = horizontal.padded();
  }
}

Recipe::Shape PaddedConvolution::weights() const {
  return recipe_.image(out_channels_, in_.c / groups_, vertical_.kernel * horizontal_.kernel);
}

Convolution PaddedConvolution::plan_of(Direction direction) const {
  Convolution conv{};
  conv.direction = direction;
  conv.element = recipe_.element();
  conv.tf32 = recipe_.tf32();
  conv.layout = recipe_.layout();
  conv.in = padded_;
  conv.out_channels = out_channels_;
  conv.out_h = vertical_.out();
  conv.out_w = horizontal_.out();
  conv.groups = groups_;
  conv.window = {vertical_.kernel,
                 horizontal_.kernel,
                 vertical_.stride,
                 horizontal_.stride,
                 uneven() ? 0 : vertical_.pad_before,
                 uneven() ? 0 : horizontal_.pad_before,
                 vertical_.dilation,
                 horizontal_.dilation};
  conv.policy = recipe_.policy();
  conv.fixed_algorithm = fixed_algorithm;
  conv.workspace_limit_bytes = convolution_workspace_bytes;
  return conv;
}

Recipe::Id PaddedConvolution::padded_image() const {
  return recipe_.intermediate(recipe_.image(padded_.n, padded_.c, padded_.h * padded_.w));
}

Primitive PaddedConvolution::pad(Direction direction) const {
  return primitive(Pad{direction, recipe_.element(), recipe_.layout(), in_, vertical_.pad_before,
                       horizontal_.pad_before, padded_.h, padded_.w});
}

void PaddedConvolution::forward(Recipe::Id x, Recipe::Id w, Recipe::Id y) const {
  auto image = x;
  if (uneven()) {
    image = padded_image();
    recipe_.run(pad(Direction::forward), {x, image});
  }
  recipe_.run(primitive(plan_of(Direction::forward)), {image, w, y});
}

void PaddedConvolution::backward_data(Recipe::Id w, Recipe::Id dy, Recipe::Id dx) const {
  const auto image = uneven() ? padded_image() : dx;
  recipe_.run(primitive(plan_of(Direction::backward_data)), {w, dy, image});
  if (uneven()) recipe_.run(pad(Direction::backward), {image, dx});
}

void PaddedConvolution::backward_weights(Recipe::Id x, Recipe::Id dy, Recipe::Id dw) const {
  auto image = x;
  if (uneven()) {
    image = padded_image();
    recipe_.run(pad(Direction::forward), {x, image});
  }
  recipe_.run(primitive(plan_of(Direction::backward_weights)), {image, dy, dw});
}

}  // namespace forecost::cuda
