#include "data/operators/conv_transpose2d.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "data/item_shape.hpp"
#include "data/operators/convolution.hpp"
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
  check_groups("conv_transpose2d", s.in_channels, s.out_channels, s.groups);
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
  return weights_and_bias(s.weight_elements(), s.bias ? s.out_channels : 0);
}

/// "same" makes the output side * stride. A kernel that does not reach over its stride leaves less.
SamePadding same_output(std::int64_t /*side*/, std::int64_t kernel, std::int64_t stride,
                        std::int64_t dilation) {
  const std::int64_t total = std::max<std::int64_t>(dilation * (kernel - 1) + 1 - stride, 0);
  return {total / 2, total - total / 2};
}

ItemShape output_shape(const Layer& layer, std::span<const ItemShape> /*inputs*/) {
  const auto s = conv_transpose2d_shape(layer);
  return {s.out_channels, s.out_h(), s.out_w()};
}

}  // namespace

constinit const Operator conv_transpose2d_operator{
    .name = "conv_transpose2d",
    .family = Family::convolution,
    .parameters = std::span(convolution_parameters).first<std::size(convolution_parameters) - 1>(),
    .passes = affine_passes,
    .check = &check,
    .work = &work_of_passes<affine>,
    .parameter_tensors = &parameter_tensors,
    .input_elements = &input_elements,
    .output_elements = &output_elements,
    .same_padding = &same_output,
    .fit = &fit_convolution,
    .output_shape = &output_shape,
};

}  // namespace forecost
