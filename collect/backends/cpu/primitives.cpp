#include "collect/backends/cpu/primitives.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "data/operators/conv2d.hpp"
#include "data/operators/dense.hpp"

namespace forecost::cpu {
namespace {

using dnnl::memory;

dnnl::algorithm algorithm_of(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return dnnl::algorithm::eltwise_relu;
    case Activation::tanh:
      return dnnl::algorithm::eltwise_tanh;
    case Activation::sigmoid:
      return dnnl::algorithm::eltwise_logistic;
    case Activation::none:
      break;
  }
  throw std::logic_error("a layer without activation has no eltwise primitive");
}

/// Frameworks keep the output, not the sum before the activation.
dnnl::algorithm gradient_algorithm_of(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
    case Activation::tanh:
      return dnnl::algorithm::eltwise_tanh_use_dst_for_bwd;
    case Activation::sigmoid:
      return dnnl::algorithm::eltwise_logistic_use_dst_for_bwd;
    case Activation::none:
      break;
  }
  throw std::logic_error("a layer without activation has no eltwise primitive");
}

memory::desc bias_desc(const Affine& layer) {
  return layer.bias.empty() ? memory::desc() : any(layer.bias, layer.type);
}

dnnl::inner_product_forward::primitive_desc dense_forward(const dnnl::engine& engine,
                                                          const Affine& layer, dnnl::prop_kind kind,
                                                          const memory::desc& src,
                                                          const dnnl::primitive_attr& attributes) {
  return describe<dnnl::inner_product_forward>(engine, attributes, kind, src,
                                               any(layer.weights, layer.type), bias_desc(layer),
                                               any(layer.dst, layer.type));
}

dnnl::convolution_forward::primitive_desc convolution_forward(
    const dnnl::engine& engine, const Affine& layer, dnnl::prop_kind kind, const memory::desc& src,
    const dnnl::primitive_attr& attributes) {
  return describe<dnnl::convolution_forward>(
      engine, attributes, kind, dnnl::algorithm::convolution_direct, src,
      any(layer.weights, layer.type), bias_desc(layer), any(layer.dst, layer.type), layer.strides,
      layer.dilates, layer.pad_before, layer.pad_after);
}

}  // namespace

dnnl::memory::data_type data_type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return memory::data_type::f32;
    case DType::bf16:
      return memory::data_type::bf16;
    default:
      throw UsageError(fmt::format("the cpu backend has no {}", name_of(dtype)));
  }
}

Affine affine_of(const Layer& layer, DType dtype) {
  Affine affine{};
  affine.type = data_type_of(dtype);
  if (&layer.op() == &dense_operator) {
    const DenseShape s = dense_shape(layer);
    affine.src = {s.batch, s.in_features};
    affine.weights = {s.out_features, s.in_features};
    affine.dst = {s.batch, s.out_features};
    if (s.bias) affine.bias = {s.out_features};
    affine.activation = s.activation;
    affine.fan_in = static_cast<double>(s.in_features);
    return affine;
  }
  if (&layer.op() == &conv2d_operator) {
    const Conv2dShape s = conv2d_shape(layer);
    affine.convolution = true;
    affine.src = {s.batch, s.in_channels, s.in_h, s.in_w};
    affine.dst = {s.batch, s.out_channels, s.out_h(), s.out_w()};
    if (s.groups == 1) {
      affine.weights = {s.out_channels, s.in_channels, s.kernel_h, s.kernel_w};
    } else {
      affine.weights = {s.groups, s.out_channels / s.groups, s.in_channels / s.groups, s.kernel_h,
                        s.kernel_w};
    }
    if (s.bias) affine.bias = {s.out_channels};
    affine.strides = {s.stride_h, s.stride_w};
    affine.dilates = {s.dilation_h - 1, s.dilation_w - 1};  // oneDNN counts the skipped ones
    affine.pad_before = {s.pad_top, s.pad_left};
    affine.pad_after = {s.pad_bottom, s.pad_right};
    affine.activation = s.activation;
    affine.fan_in = static_cast<double>(s.in_channels / s.groups * s.kernel_h * s.kernel_w);
    return affine;
  }
  throw UsageError(fmt::format("the cpu backend has no operator {}", layer.op().name));
}

memory::desc plain(const memory::dims& dims, memory::data_type type) {
  memory::dims strides(dims.size());
  memory::dim stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return {dims, type, strides};
}

memory::desc any(const memory::dims& dims, memory::data_type type) {
  return {dims, type, memory::format_tag::any};
}

dnnl::primitive_attr attributes_of(Activation fused) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (fused != Activation::none) {
    dnnl::post_ops operations;
    append_eltwise(operations, algorithm_of(fused));
    attributes.set_post_ops(operations);
  }
  return attributes;
}

dnnl::primitive_desc describe_forward(const dnnl::engine& engine, const Affine& layer,
                                      dnnl::prop_kind kind, const memory::desc& src) {
  const dnnl::primitive_attr attributes = attributes_of(layer.activation);
  if (layer.convolution) return convolution_forward(engine, layer, kind, src, attributes);
  return dense_forward(engine, layer, kind, src, attributes);
}

dnnl::primitive_desc describe_backward_data(const dnnl::engine& engine, const Affine& layer,
                                            const memory::desc& diff_dst) {
  const dnnl::primitive_attr attributes = attributes_of();
  const memory::desc src = any(layer.src, layer.type), weights = any(layer.weights, layer.type);
  constexpr auto training = dnnl::prop_kind::forward_training;
  if (layer.convolution) {
    return describe_backward<dnnl::convolution_backward_data>(
        engine, attributes, convolution_forward(engine, layer, training, src, attributes),
        dnnl::algorithm::convolution_direct, src, weights, diff_dst, layer.strides, layer.dilates,
        layer.pad_before, layer.pad_after);
  }
  return describe_backward<dnnl::inner_product_backward_data>(
      engine, attributes, dense_forward(engine, layer, training, src, attributes), src, weights,
      diff_dst);
}

dnnl::primitive_desc describe_backward_weights(const dnnl::engine& engine, const Affine& layer,
                                               const memory::desc& src,
                                               const memory::desc& diff_dst) {
  const dnnl::primitive_attr attributes = attributes_of();
  const memory::desc weights = any(layer.weights, layer.type), any_src = any(layer.src, layer.type);
  constexpr auto training = dnnl::prop_kind::forward_training;
  if (layer.convolution) {
    return describe_backward<dnnl::convolution_backward_weights>(
        engine, attributes, convolution_forward(engine, layer, training, any_src, attributes),
        dnnl::algorithm::convolution_direct, src, weights, bias_desc(layer), diff_dst,
        layer.strides, layer.dilates, layer.pad_before, layer.pad_after);
  }
  return describe_backward<dnnl::inner_product_backward_weights>(
      engine, attributes, dense_forward(engine, layer, training, any_src, attributes), src, weights,
      bias_desc(layer), diff_dst);
}

dnnl::primitive_desc describe_activation_backward(const dnnl::engine& engine, Activation activation,
                                                  const memory::desc& data) {
  const dnnl::primitive_attr attributes = attributes_of();
  const dnnl::algorithm algorithm = gradient_algorithm_of(activation);
  return describe_eltwise_backward(
      engine, attributes, describe_eltwise(engine, attributes, algorithm, data), algorithm, data);
}

std::string implementation_of(const dnnl::primitive_desc& description) {
  return description.impl_info_str();
}

}  // namespace forecost::cpu
