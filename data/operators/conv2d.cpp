#include "data/operators/conv2d.hpp"

#include "data/item_shape.hpp"
#include "data/operators/convolution.hpp"
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
  check_groups("conv2d", s.in_channels, s.out_channels, s.groups);
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
  return weights_and_bias(s.weight_elements(), s.bias ? s.out_channels : 0);
}

ItemShape output_shape(const Layer& layer, std::span<const ItemShape> /*inputs*/) {
  const auto s = conv2d_shape(layer);
  return {s.out_channels, s.out_h(), s.out_w()};
}

}  // namespace

constinit const Operator conv2d_operator{
    .name = "conv2d",
    .family = Family::convolution,
    .parameters = convolution_parameters,
    .passes = affine_passes,
    .check = &check,
    .work = &work_of_passes<affine>,
    .parameter_tensors = &parameter_tensors,
    .input_elements = &input_elements,
    .output_elements = &output_elements,
    .same_padding = &same_padding,
    .fit = &fit_convolution,
    .output_shape = &output_shape,
};

}  // namespace forecost
