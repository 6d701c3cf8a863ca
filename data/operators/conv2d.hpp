#pragma once

#include <cstdint>

#include "data/layer.hpp"

namespace forecost {

/// The parameters of a `conv2d` layer under their names. Input: batch x in_channels x in_h x in_w;
/// weights: out_channels x in_channels/groups x kernel_h x kernel_w. Depthwise: groups = channels.
struct Conv2dShape {
  std::int64_t batch, in_channels, out_channels, in_h, in_w, kernel_h, kernel_w, stride_h, stride_w,
      pad_top, pad_bottom, pad_left, pad_right, dilation_h, dilation_w, groups;
  bool bias;
  Activation activation;

  std::int64_t out_h() const {
    return (in_h + pad_top + pad_bottom - dilation_h * (kernel_h - 1) - 1) / stride_h + 1;
  }
  std::int64_t out_w() const {
    return (in_w + pad_left + pad_right - dilation_w * (kernel_w - 1) - 1) / stride_w + 1;
  }
  /// Share of the multiply-adds whose input is not padding, in (0, 1].
  double inside_share() const;
  std::int64_t weight_elements() const {
    return out_channels * (in_channels / groups) * kernel_h * kernel_w;
  }
};
/// The layer must be a conv2d.
Conv2dShape conv2d_shape(const Layer& layer);

/// Padding before and after, so that the output side is ceil(side / stride), as TensorFlow's
/// "same": the odd element goes after.
struct SamePadding {
  std::int64_t before, after;
};
SamePadding same_padding(std::int64_t side, std::int64_t kernel, std::int64_t stride,
                         std::int64_t dilation = 1);

extern const Operator conv2d_operator;

}  // namespace forecost
