#pragma once

#include <cstdint>

#include "data/layer.hpp"
#include "data/operators/window.hpp"

namespace forecost {

/// The parameters of a `conv2d` layer under their names. Input: batch x in_channels x in_h x in_w;
/// weights: out_channels x in_channels/groups x kernel_h x kernel_w. Depthwise: groups = channels.
struct Conv2dShape {
  std::int64_t batch, in_channels, out_channels, in_h, in_w, kernel_h, kernel_w, stride_h, stride_w,
      pad_top, pad_bottom, pad_left, pad_right, dilation_h, dilation_w, groups;
  bool bias;
  Activation activation;

  WindowSide vertical() const {
    return {in_h, kernel_h, stride_h, pad_top, pad_bottom, dilation_h};
  }
  WindowSide horizontal() const {
    return {in_w, kernel_w, stride_w, pad_left, pad_right, dilation_w};
  }
  std::int64_t out_h() const { return vertical().out(); }
  std::int64_t out_w() const { return horizontal().out(); }
  /// Share of the multiply-adds whose input is not padding.
  double inside_share() const { return forecost::inside_share(vertical(), horizontal()); }
  std::int64_t weight_elements() const {
    return out_channels * (in_channels / groups) * kernel_h * kernel_w;
  }
};
/// The layer must be a conv2d.
Conv2dShape conv2d_shape(const Layer& layer);

extern const Operator conv2d_operator;

}  // namespace forecost
