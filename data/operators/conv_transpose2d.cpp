#include "data/operators/conv_transpose2d.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "data/layer_draft.hpp"
#include "data/operators/fused.hpp"
#include "data/operators/passes.hpp"

namespace forecost {

ConvTranspose2dShape conv_transpose2d_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1],  v[2],  v[3],  v[4],  v[5],  v[6],  v[7],      v[8],
          v[9], v[10], v[11], v[12], v[13], v[14], v[15], v[16] != 0};
}

namespace {

void check(const Layer& layer) {
  const ConvTranspose2dShape s = conv_transpose2d_shape(layer);
  if (s.in_channels % s.groups != 0 || s.out_channels % s.groups != 0) {
    throw UsageError(fmt::format(
        "conv_transpose2d: in_channels={} and out_channels={} must be multiples of groups={}",
        s.in_channels, s.out_channels, s.groups));
  }
  if (s.out_h() < 1 || s.out_w() < 1) {
    throw UsageError(
        fmt::format("conv_transpose2d: pads of {}+{} rows and {}+{} columns leave nothing of an "
                    "output of {}x{}; expected smaller ones",
                    s.pad_top, s.pad_bottom, s.pad_left, s.pad_right,
                    s.out_h() + s.pad_top + s.pad_bottom, s.out_w() + s.pad_left + s.pad_right));
  }
}

std::int64_t input_elements(const Layer& layer) {
  const ConvTranspose2dShape s = conv_transpose2d_shape(layer);
  return s.batch * s.in_channels * s.in_h * s.in_w;
}

std::int64_t output_elements(const Layer& layer) {
  const ConvTranspose2dShape s = conv_transpose2d_shape(layer);
  return s.batch * s.out_channels * s.out_h() * s.out_w();
}

/// The three products of the convolution that this is the input gradient of, in other roles: each
/// input element meets every tap (Dumoulin, Visin 2016, arXiv 1603.07285, chapter 4). What falls
/// onto the pads is computed and thrown away: padding.
Work affine(const Layer& layer, Pass pass, DType dtype) {
  const ConvTranspose2dShape s = conv_transpose2d_shape(layer);
  const auto input = static_cast<double>(input_elements(layer));
  const double macs =
      input * static_cast<double>(s.out_channels / s.groups * s.kernel_h * s.kernel_w);
  return affine_work({.macs = macs,
                      .input = input,
                      .weights = static_cast<double>(s.weight_elements()),
                      .output = static_cast<double>(output_elements(layer)),
                      .bias = s.bias ? static_cast<double>(s.out_channels) : 0,
                      .activation = Activation::none,
                      .padding_macs = macs * (1 - inside_share(s.vertical(), s.horizontal()))},
                     pass, dtype);
}

std::vector<std::int64_t> parameter_tensors(const Layer& layer) {
  const ConvTranspose2dShape s = conv_transpose2d_shape(layer);
  std::vector<std::int64_t> tensors{s.weight_elements()};
  if (s.bias) tensors.push_back(s.out_channels);
  return tensors;
}

/// "same" makes the output side * stride. A kernel that does not reach over its stride leaves less.
SamePadding same_output(std::int64_t /*side*/, std::int64_t kernel, std::int64_t stride,
                        std::int64_t dilation) {
  const std::int64_t total = std::max<std::int64_t>(dilation * (kernel - 1) + 1 - stride, 0);
  return {total / 2, total - total / 2};
}

void fit(LayerDraft& draft, std::span<const ItemShape> inputs) {
  fit_image(draft, inputs[0], "in_channels", "in_h", "in_w");
}

ItemShape output_shape(const Layer& layer, std::span<const ItemShape> /*inputs*/) {
  const auto s = conv_transpose2d_shape(layer);
  return {s.out_channels, s.out_h(), s.out_w()};
}

constexpr std::int64_t side_max = 1 << 16;

constexpr ParameterInfo parameters[] = {
    {"batch", 1, 1 << 20, std::nullopt, {}, "items"},
    {"in_channels", 1, 1 << 20, std::nullopt, {}, "channels of the input"},
    {"out_channels", 1, 1 << 20, std::nullopt, {}, "channels of the output"},
    {"in_h", 1, side_max, std::nullopt, {}, "height of the input"},
    {"in_w", 1, side_max, std::nullopt, {}, "width of the input"},
    {"kernel_h", 1, 4096, std::nullopt, {}, "height of the kernel"},
    {"kernel_w", 1, 4096, std::nullopt, {}, "width of the kernel"},
    {"stride_h", 1, 4096, 1, {}, "vertical step in the output"},
    {"stride_w", 1, 4096, 1, {}, "horizontal step in the output"},
    {"pad_top", 0, 4096, 0, {}, "rows taken off the output above"},
    {"pad_bottom", 0, 4096, 0, {}, "rows taken off the output below"},
    {"pad_left", 0, 4096, 0, {}, "columns taken off the output before"},
    {"pad_right", 0, 4096, 0, {}, "columns taken off the output after"},
    {"dilation_h", 1, 4096, 1, {}, "distance of kernel rows"},
    {"dilation_w", 1, 4096, 1, {}, "distance of kernel columns"},
    {"groups", 1, 1 << 20, 1, {}, "independent groups of channels"},
    {"bias", 0, 1, 1, {}, "whether a bias is added"},
};

constexpr Pass passes[] = {Pass::forward, Pass::backward_data, Pass::backward_weights, Pass::update,
                           Pass::training_step};

}  // namespace

constinit const Operator conv_transpose2d_operator{
    .name = "conv_transpose2d",
    .family = Family::convolution,
    .parameters = parameters,
    .passes = passes,
    .check = &check,
    .work = &work_of_passes<affine>,
    .parameter_tensors = &parameter_tensors,
    .input_elements = &input_elements,
    .output_elements = &output_elements,
    .same_padding = &same_output,
    .fit = &fit,
    .output_shape = &output_shape,
};

}  // namespace forecost
