#include <cmath>

#include "collect/reference/references.hpp"
#include "data/operators/conv2d.hpp"
#include "data/operators/dense.hpp"

namespace forecost {
namespace {

/// A dense layer is a convolution of 1x1 images with 1x1 kernels.
Conv2dShape shape_of(const Layer& layer) {
  if (&layer.op() == &conv2d_operator) return conv2d_shape(layer);
  const DenseShape s = dense_shape(layer);
  return {s.batch, s.in_features, s.out_features, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1,
          1,       s.bias,        s.activation};
}

/// Calls visit(source index, weight index, destination index) for every multiply-add.
template <class Visit>
void for_each_product(const Conv2dShape& s, Visit visit) {
  const std::int64_t ic_group = s.in_channels / s.groups, oc_group = s.out_channels / s.groups;
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t oc = 0; oc < s.out_channels; ++oc)
      for (std::int64_t oh = 0; oh < s.out_h(); ++oh)
        for (std::int64_t ow = 0; ow < s.out_w(); ++ow)
          for (std::int64_t ic = 0; ic < ic_group; ++ic)
            for (std::int64_t kh = 0; kh < s.kernel_h; ++kh)
              for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
                const std::int64_t h = oh * s.stride_h - s.pad_top + kh * s.dilation_h;
                const std::int64_t w = ow * s.stride_w - s.pad_left + kw * s.dilation_w;
                if (h < 0 || h >= s.in_h || w < 0 || w >= s.in_w) continue;
                const std::int64_t channel = oc / oc_group * ic_group + ic;
                visit(static_cast<std::size_t>(
                          ((n * s.in_channels + channel) * s.in_h + h) * s.in_w + w),
                      static_cast<std::size_t>(
                          ((oc * ic_group + ic) * s.kernel_h + kh) * s.kernel_w + kw),
                      static_cast<std::size_t>(
                          ((n * s.out_channels + oc) * s.out_h() + oh) * s.out_w() + ow));
              }
}

std::size_t channel_of(const Conv2dShape& s, std::size_t destination) {
  return destination / static_cast<std::size_t>(s.out_h() * s.out_w()) %
         static_cast<std::size_t>(s.out_channels);
}

/// f'(z) from y = f(z).
double slope(Activation activation, double y) {
  switch (activation) {
    case Activation::relu:
      return y > 0 ? 1 : 0;
    case Activation::tanh:
      return 1 - y * y;
    case Activation::sigmoid:
      return y * (1 - y);
    case Activation::none:
      break;
  }
  return 1;
}

}  // namespace

double activate(Activation activation, double z) {
  switch (activation) {
    case Activation::relu:
      return std::max(z, 0.0);
    case Activation::tanh:
      return std::tanh(z);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-z));
    case Activation::none:
      break;
  }
  return z;
}

Operands affine_reference(const Task& task, const Operands& operands) {
  const Conv2dShape s = shape_of(task.layer);
  const auto n = [](std::int64_t elements) { return static_cast<std::size_t>(elements); };
  const std::size_t out_elements = n(s.batch * s.out_channels * s.out_h() * s.out_w());
  if (task.pass == Pass::forward) {
    const auto &x = operands.at("src"), &w = operands.at("weights");
    std::vector<double> y(out_elements);
    for_each_product(s, [&](auto i, auto j, auto k) { y[k] += x[i] * w[j]; });
    for (std::size_t k = 0; k < y.size(); ++k) {
      if (s.bias) y[k] += operands.at("bias")[channel_of(s, k)];
      y[k] = activate(s.activation, y[k]);
    }
    return {{"dst", std::move(y)}};
  }
  if (task.pass == Pass::backward_data) {
    const auto& w = operands.at("weights");
    std::vector<double> dz = operands.at("diff_dst");
    if (s.activation != Activation::none) {
      const auto& y = operands.at("dst");
      for (std::size_t k = 0; k < dz.size(); ++k) dz[k] *= slope(s.activation, y[k]);
    }
    std::vector<double> dx(n(s.batch * s.in_channels * s.in_h * s.in_w));
    for_each_product(s, [&](auto i, auto j, auto k) { dx[i] += dz[k] * w[j]; });
    return {{"diff_src", std::move(dx)}};
  }
  const auto &x = operands.at("src"), &dz = operands.at("diff_dst");
  Operands results;
  std::vector<double>& dw = results["diff_weights"];
  dw.resize(n(s.weight_elements()));
  for_each_product(s, [&](auto i, auto j, auto k) { dw[j] += dz[k] * x[i]; });
  if (s.bias) {
    std::vector<double>& db = results["diff_bias"];
    db.resize(n(s.out_channels));
    for (std::size_t k = 0; k < out_elements; ++k) db[channel_of(s, k)] += dz[k];
  }
  return results;
}

}  // namespace forecost
