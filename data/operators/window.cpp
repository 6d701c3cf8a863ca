#include "data/operators/window.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.hpp"

namespace forecost {

std::int64_t WindowSide::taps_inside() const {
  std::int64_t total = 0;
  for (std::int64_t tap = 0; tap < kernel; ++tap) {
    // Output position o reads o * stride + offset.
    const std::int64_t offset = tap * dilation - pad_before;
    const std::int64_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
    const std::int64_t end = offset >= side ? 0 : std::min(out(), (side - 1 - offset) / stride + 1);
    total += std::max<std::int64_t>(0, end - first);
  }
  return total;
}

double inside_share(const WindowSide& h, const WindowSide& w) {
  const double inside = static_cast<double>(h.taps_inside()) * static_cast<double>(w.taps_inside());
  return inside / static_cast<double>(h.out() * h.kernel * w.out() * w.kernel);
}

double stepped_over_share(const WindowSide& h, const WindowSide& w) {
  return 1 - (1 - h.stepped_over()) * (1 - w.stepped_over());
}

void check_window(std::string_view op, const WindowSide& h, const WindowSide& w) {
  if (h.fits() && w.fits()) return;
  const bool dilated = h.dilation > 1 || w.dilation > 1;
  throw UsageError(
      fmt::format("{}: a kernel of {}x{}{} does not fit into a padded input of {}x{}", op, h.kernel,
                  w.kernel, dilated ? fmt::format(" (dilation {}x{})", h.dilation, w.dilation) : "",
                  h.padded(), w.padded()));
}

SamePadding same_padding(std::int64_t side, std::int64_t kernel, std::int64_t stride,
                         std::int64_t dilation) {
  const std::int64_t out = (side + stride - 1) / stride;
  const std::int64_t total =
      std::max<std::int64_t>((out - 1) * stride + dilation * (kernel - 1) + 1 - side, 0);
  return {total / 2, total - total / 2};
}

}  // namespace forecost
