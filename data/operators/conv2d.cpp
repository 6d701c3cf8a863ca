#include "data/operators/conv2d.hpp"

#include <fmt/format.h>

#include "data/layer_draft.hpp"
#include "data/operators/fused.hpp"
#include "data/operators/passes.hpp"

namespace forecost {

Conv2dShape conv2d_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0],  v[1],  v[2],  v[3],  v[4],       v[5],
          v[6],  v[7],  v[8],  v[9],  v[10],      v[11],
          v[12], v[13], v[14], v[15], v[16] != 0, static_cast<Activation>(v[17])};
}

namespace {

void check(const Layer& layer) {
  const Conv2dShape s = conv2d_shape(layer);
  if (s.in_channels % s.groups != 0 || s.out_channels % s.groups != 0) {
    throw UsageError(
        fmt::format("conv2d: in_channels={} and out_channels={} must be multiples of groups={}",
                    s.in_channels, s.out_channels, s.groups));
  }
  check_window("conv2d", s.vertical(), s.horizontal());
}

std::int64_t input_elements(const Layer& layer) {
  const Conv2dShape s = conv2d_shape(layer);
  return s.batch * s.in_channels * s.in_h * s.in_w;
}

std::int64_t output_elements(const Layer& layer) {
  const Conv2dShape s = conv2d_shape(layer);
  return s.batch * s.out_channels * s.out_h() * s.out_w();
}

/// Multiply-adds of the direct algorithm; multiplications with padding are counted, as usual.
Work affine(const Layer& layer, Pass pass, DType dtype) {
  const Conv2dShape s = conv2d_shape(layer);
  const auto output = static_cast<double>(output_elements(layer));
  const double macs =
      output * static_cast<double>(s.in_channels / s.groups * s.kernel_h * s.kernel_w);
  const auto input = static_cast<double>(input_elements(layer));
  return affine_work(
      {.macs = macs,
       .input = input,
       .weights = static_cast<double>(s.weight_elements()),
       .output = output,
       .bias = s.bias ? static_cast<double>(s.out_channels) : 0,
       .activation = s.activation,
       .padding_macs = macs * (1 - s.inside_share()),
       .stepped_over_input = input * stepped_over_share(s.vertical(), s.horizontal())},
      pass, dtype);
}

std::vector<std::int64_t> parameter_tensors(const Layer& layer) {
  const Conv2dShape s = conv2d_shape(layer);
  std::vector<std::int64_t> tensors{s.weight_elements()};
  if (s.bias) tensors.push_back(s.out_channels);
  return tensors;
}

void fit(LayerDraft& draft, std::span<const ItemShape> inputs) {
  fit_image(draft, inputs[0], "in_channels", "in_h", "in_w");
}

ItemShape output_shape(const Layer& layer, std::span<const ItemShape> /*inputs*/) {
  const auto s = conv2d_shape(layer);
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
    {"stride_h", 1, 4096, 1, {}, "vertical step"},
    {"stride_w", 1, 4096, 1, {}, "horizontal step"},
    {"pad_top", 0, 4096, 0, {}, "rows of zeros above"},
    {"pad_bottom", 0, 4096, 0, {}, "rows of zeros below"},
    {"pad_left", 0, 4096, 0, {}, "columns of zeros before"},
    {"pad_right", 0, 4096, 0, {}, "columns of zeros after"},
    {"dilation_h", 1, 4096, 1, {}, "distance of kernel rows"},
    {"dilation_w", 1, 4096, 1, {}, "distance of kernel columns"},
    {"groups", 1, 1 << 20, 1, {}, "independent groups of channels"},
    {"bias", 0, 1, 1, {}, "whether a bias is added"},
    {"activation", 0, 3, 0, EnumNames<Activation>::names, "fused activation"},
};

constexpr Pass passes[] = {Pass::forward, Pass::backward_data, Pass::backward_weights, Pass::update,
                           Pass::training_step};

}  // namespace

constinit const Operator conv2d_operator{
    .name = "conv2d",
    .family = Family::convolution,
    .parameters = parameters,
    .passes = passes,
    .check = &check,
    .work = &work_of_passes<affine>,
    .parameter_tensors = &parameter_tensors,
    .input_elements = &input_elements,
    .output_elements = &output_elements,
    .same_padding = &same_padding,
    .fit = &fit,
    .output_shape = &output_shape,
};

}  // namespace forecost
