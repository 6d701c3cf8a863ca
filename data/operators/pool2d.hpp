#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "data/layer.hpp"
#include "data/operators/window.hpp"

namespace forecost {

/// What a `pool2d` layer makes of a window: its largest element, or the mean of those that are not
/// padding. `global_average` is the mean of each whole channel.
enum class PoolMode : std::uint8_t { max, average, global_average };
template <>
struct EnumNames<PoolMode> {
  static constexpr std::string_view kind = "pooling mode";
  static constexpr std::array<std::string_view, 3> names{"max", "average", "global_average"};
};

/// The parameters of a `pool2d` layer under their names. Input: batch x channels x in_h x in_w. Of
/// global_average, kernel, stride and pads stay at their defaults.
struct Pool2dShape {
  std::int64_t batch, channels, in_h, in_w, kernel_h, kernel_w, stride_h, stride_w, pad_top,
      pad_bottom, pad_left, pad_right;
  PoolMode mode;

  /// The window that slides; of global_average, the whole image.
  WindowSide vertical() const {
    if (mode == PoolMode::global_average) return {in_h, in_h, 1, 0, 0};
    return {in_h, kernel_h, stride_h, pad_top, pad_bottom};
  }
  WindowSide horizontal() const {
    if (mode == PoolMode::global_average) return {in_w, in_w, 1, 0, 0};
    return {in_w, kernel_w, stride_w, pad_left, pad_right};
  }
  std::int64_t out_h() const { return vertical().out(); }
  std::int64_t out_w() const { return horizontal().out(); }
  /// Of max, bytes of the place of a window's largest element, one per output: 1 where the kernel
  /// has at most 256 taps, else 4, as oneDNN keeps it. 0 of the other modes.
  std::int64_t index_bytes() const {
    if (mode != PoolMode::max) return 0;
    return kernel_h * kernel_w <= 256 ? 1 : 4;
  }
};
/// The layer must be a pool2d.
Pool2dShape pool2d_shape(const Layer& layer);

extern const Operator pool2d_operator;

}  // namespace forecost
