#pragma once

#include <cstdint>
#include <string_view>

// What operators that slide a window over an image have in common: convolution and pooling.

namespace forecost {

/// One side of an image and of the window that slides over it.
struct WindowSide {
  std::int64_t side, kernel, stride, pad_before, pad_after, dilation = 1;

  std::int64_t padded() const { return side + pad_before + pad_after; }
  /// How far the window reaches: the kernel with the gaps of its dilation.
  std::int64_t reach() const { return dilation * (kernel - 1) + 1; }
  bool fits() const { return padded() >= reach(); }
  /// Positions of the window; at least 1 if it fits.
  std::int64_t out() const { return (padded() - reach()) / stride + 1; }
  /// Taps of the kernel that meet the image, over all positions.
  std::int64_t taps_inside() const;
  /// Share of the side that windows may leave out, in [0, 1): 0 unless they step over some of it.
  double stepped_over() const {
    if (stride <= dilation * kernel || out() * kernel >= side) return 0;
    return 1 - static_cast<double>(out() * kernel) / static_cast<double>(side);
  }
};

/// Share of a window's taps that meet the image and not padding, over all positions, in [0, 1].
double inside_share(const WindowSide& h, const WindowSide& w);

/// Share of an image that windows may leave out, in [0, 1).
double stepped_over_share(const WindowSide& h, const WindowSide& w);

/// Throws UsageError that names the operator unless the window fits into the padded image.
void check_window(std::string_view op, const WindowSide& h, const WindowSide& w);

/// Padding before and after.
struct SamePadding {
  std::int64_t before, after;
};
/// So that the output side is ceil(side / stride), as TensorFlow's "same": the odd element goes
/// after.
SamePadding same_padding(std::int64_t side, std::int64_t kernel, std::int64_t stride,
                         std::int64_t dilation = 1);

}  // namespace forecost
