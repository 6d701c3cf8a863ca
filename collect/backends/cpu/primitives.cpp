#include "collect/backends/cpu/primitives.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "data/operators/conv2d.hpp"
#include "data/operators/conv_transpose2d.hpp"
#include "data/operators/dense.hpp"
#include "data/operators/pool2d.hpp"

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

/// What a convolution and a transposed one have in common.
template <class Shape>
void set_images(Affine& affine, const Shape& s) {
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
  affine.fan_in = static_cast<double>(s.in_channels / s.groups * s.kernel_h * s.kernel_w);
}

struct Convolution {
  using Forward = dnnl::convolution_forward;
  using BackwardData = dnnl::convolution_backward_data;
  using BackwardWeights = dnnl::convolution_backward_weights;
  static constexpr dnnl::algorithm algorithm = dnnl::algorithm::convolution_direct;
};
struct Deconvolution {
  using Forward = dnnl::deconvolution_forward;
  using BackwardData = dnnl::deconvolution_backward_data;
  using BackwardWeights = dnnl::deconvolution_backward_weights;
  static constexpr dnnl::algorithm algorithm = dnnl::algorithm::deconvolution_direct;
};

template <class Kind>
typename Kind::Forward::primitive_desc image_forward(const dnnl::engine& engine,
                                                     const Affine& layer, dnnl::prop_kind kind,
                                                     const memory::desc& src,
                                                     const dnnl::primitive_attr& attributes) {
  return describe<typename Kind::Forward>(engine, attributes, kind, Kind::algorithm, src,
                                          any(layer.weights, layer.type), bias_desc(layer),
                                          any(layer.dst, layer.type), layer.strides, layer.dilates,
                                          layer.pad_before, layer.pad_after);
}

// The forward pass is a hint: it need not have run.
constexpr auto training = dnnl::prop_kind::forward_training;

template <class Kind>
dnnl::primitive_desc image_backward_data(const dnnl::engine& engine, const Affine& layer,
                                         const memory::desc& diff_dst) {
  const dnnl::primitive_attr attributes = attributes_of();
  const memory::desc src = any(layer.src, layer.type);
  return describe_backward<typename Kind::BackwardData>(
      engine, attributes, image_forward<Kind>(engine, layer, training, src, attributes),
      Kind::algorithm, src, any(layer.weights, layer.type), diff_dst, layer.strides, layer.dilates,
      layer.pad_before, layer.pad_after);
}

template <class Kind>
dnnl::primitive_desc image_backward_weights(const dnnl::engine& engine, const Affine& layer,
                                            const memory::desc& src, const memory::desc& diff_dst) {
  const dnnl::primitive_attr attributes = attributes_of();
  return describe_backward<typename Kind::BackwardWeights>(
      engine, attributes,
      image_forward<Kind>(engine, layer, training, any(layer.src, layer.type), attributes),
      Kind::algorithm, src, any(layer.weights, layer.type), bias_desc(layer), diff_dst,
      layer.strides, layer.dilates, layer.pad_before, layer.pad_after);
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
    set_images(affine, s);
    affine.activation = s.activation;
    return affine;
  }
  if (&layer.op() == &conv_transpose2d_operator) {
    const ConvTranspose2dShape s = conv_transpose2d_shape(layer);
    set_images(affine, s);
    affine.transposed = true;
    // The inputs of an output lie stride_h * stride_w taps apart.
    affine.fan_in = std::max(1.0, affine.fan_in / static_cast<double>(s.stride_h * s.stride_w));
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

memory::desc image_layout(const dnnl::engine& engine, const memory::dims& dims,
                          memory::data_type type) {
  const memory::dim batch = dims[0], channels = dims[1], height = dims[2], width = dims[3];
  if (height * width == 1) return plain(dims, type);
  // One as in any network: 3x3, of the same size.
  constexpr memory::dim in_channels = 64;
  Affine layer{};
  layer.type = type;
  layer.src = {batch, in_channels, height, width};
  layer.weights = {channels, in_channels, 3, 3};
  layer.dst = dims;
  layer.strides = layer.pad_before = layer.pad_after = {1, 1};
  layer.dilates = {0, 0};
  return image_forward<Convolution>(engine, layer, dnnl::prop_kind::forward_inference,
                                    any(layer.src, type), attributes_of())
      .dst_desc();
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
  if (layer.transposed) return image_forward<Deconvolution>(engine, layer, kind, src, attributes);
  if (layer.convolution) return image_forward<Convolution>(engine, layer, kind, src, attributes);
  return dense_forward(engine, layer, kind, src, attributes);
}

dnnl::primitive_desc describe_backward_data(const dnnl::engine& engine, const Affine& layer,
                                            const memory::desc& diff_dst) {
  if (layer.transposed) return image_backward_data<Deconvolution>(engine, layer, diff_dst);
  if (layer.convolution) return image_backward_data<Convolution>(engine, layer, diff_dst);
  const dnnl::primitive_attr attributes = attributes_of();
  const memory::desc src = any(layer.src, layer.type);
  return describe_backward<dnnl::inner_product_backward_data>(
      engine, attributes, dense_forward(engine, layer, training, src, attributes), src,
      any(layer.weights, layer.type), diff_dst);
}

dnnl::primitive_desc describe_backward_weights(const dnnl::engine& engine, const Affine& layer,
                                               const memory::desc& src,
                                               const memory::desc& diff_dst) {
  if (layer.transposed) return image_backward_weights<Deconvolution>(engine, layer, src, diff_dst);
  if (layer.convolution) return image_backward_weights<Convolution>(engine, layer, src, diff_dst);
  const dnnl::primitive_attr attributes = attributes_of();
  return describe_backward<dnnl::inner_product_backward_weights>(
      engine, attributes,
      dense_forward(engine, layer, training, any(layer.src, layer.type), attributes), src,
      any(layer.weights, layer.type), bias_desc(layer), diff_dst);
}

Pooling pooling_of(const Layer& layer, DType dtype) {
  const Pool2dShape s = pool2d_shape(layer);
  const WindowSide h = s.vertical(), w = s.horizontal();
  return {{s.batch, s.channels, s.in_h, s.in_w},
          {s.batch, s.channels, s.out_h(), s.out_w()},
          {h.kernel, w.kernel},
          {h.stride, w.stride},
          {h.pad_before, w.pad_before},
          {h.pad_after, w.pad_after},
          data_type_of(dtype),
          s.mode == PoolMode::max ? dnnl::algorithm::pooling_max
                                  : dnnl::algorithm::pooling_avg_exclude_padding};
}

PoolForward::primitive_desc describe_pool(const dnnl::engine& engine, const Pooling& layer,
                                          dnnl::prop_kind kind, const memory::desc& src) {
  const memory::dims dilation{0, 0};
  return describe<PoolForward>(engine, attributes_of(), kind, layer.algorithm, src,
                               any(layer.dst, layer.type), layer.strides, layer.kernel, dilation,
                               layer.pad_before, layer.pad_after);
}

PoolBackward::primitive_desc describe_pool_backward(const dnnl::engine& engine,
                                                    const Pooling& layer,
                                                    const PoolForward::primitive_desc& forward) {
  const memory::dims dilation{0, 0};
  return describe_backward<PoolBackward>(engine, attributes_of(), forward, layer.algorithm,
                                         forward.src_desc(), forward.dst_desc(), layer.strides,
                                         layer.kernel, dilation, layer.pad_before, layer.pad_after);
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
