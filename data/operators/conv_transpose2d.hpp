#pragma once

#include <cstdint>

#include "data/layer.hpp"
#include "data/operators/window.hpp"

namespace forecost {

/// The parameters of a `conv_transpose2d` layer under their names: the input gradient of a
/// convolution as a forward operator. Input: batch x in_channels x in_h x in_w; weights:
/// in_channels x out_channels/groups x kernel_h x kernel_w. The pads are taken off the output,
/// which is (in - 1) * stride - pads + dilation * (kernel - 1) + 1 a side: what PyTorch calls
/// output padding is a smaller pad_bottom or pad_right.
struct ConvTranspose2dShape {
  std::int64_t batch, in_channels, out_channels, in_h, in_w, kernel_h, kernel_w, stride_h, stride_w,
      pad_top, pad_bottom, pad_left, pad_right, dilation_h, dilation_w, groups;
  bool bias;

  std::int64_t out_h() const {
    return (in_h - 1) * stride_h + dilation_h * (kernel_h - 1) + 1 - pad_top - pad_bottom;
  }
  std::int64_t out_w() const {
    return (in_w - 1) * stride_w + dilation_w * (kernel_w - 1) + 1 - pad_left - pad_right;
  }
  /// The window of the convolution that this one is the input gradient of: it slides over the
  /// output, and its positions are the input's.
  WindowSide vertical() const {
    return {out_h(), kernel_h, stride_h, pad_top, pad_bottom, dilation_h};
  }
  WindowSide horizontal() const {
    return {out_w(), kernel_w, stride_w, pad_left, pad_right, dilation_w};
  }
  std::int64_t weight_elements() const {
    return in_channels * (out_channels / groups) * kernel_h * kernel_w;
  }
};
/// The layer must be a conv_transpose2d.
ConvTranspose2dShape conv_transpose2d_shape(const Layer& layer);

extern const Operator conv_transpose2d_operator;

}  // namespace forecost
