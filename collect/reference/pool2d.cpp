#include "data/operators/pool2d.hpp"

#include <algorithm>

#include "collect/reference/references.hpp"

namespace forecost {

namespace {

/// Places in the input of what the window at (oh, ow) of a channel sees, in row-major order.
std::vector<std::size_t> taps_of(const Pool2dShape& s, std::int64_t plane, std::int64_t oh,
                                 std::int64_t ow) {
  const WindowSide vertical = s.vertical(), horizontal = s.horizontal();
  std::vector<std::size_t> taps;
  for (std::int64_t kh = 0; kh < vertical.kernel; ++kh)
    for (std::int64_t kw = 0; kw < horizontal.kernel; ++kw) {
      const std::int64_t h = oh * vertical.stride - vertical.pad_before + kh;
      const std::int64_t w = ow * horizontal.stride - horizontal.pad_before + kw;
      if (h < 0 || h >= s.in_h || w < 0 || w >= s.in_w) continue;
      taps.push_back(static_cast<std::size_t>((plane * s.in_h + h) * s.in_w + w));
    }
  return taps;
}

}  // namespace

Operands pool2d_reference(const Task& task, const Operands& operands) {
  const Pool2dShape s = pool2d_shape(task.layer);
  const bool forward = task.pass == Pass::forward, max = s.mode == PoolMode::max;
  std::vector<double> y, dx;
  if (!forward) dx.resize(static_cast<std::size_t>(s.batch * s.channels * s.in_h * s.in_w));
  std::size_t output = 0;
  for (std::int64_t plane = 0; plane < s.batch * s.channels; ++plane)
    for (std::int64_t oh = 0; oh < s.out_h(); ++oh)
      for (std::int64_t ow = 0; ow < s.out_w(); ++ow, ++output) {
        const std::vector<std::size_t> taps = taps_of(s, plane, oh, ow);
        if (max) {
          const auto& x = operands.at("src");
          const std::size_t place = *std::max_element(  // the first of equals
              taps.begin(), taps.end(), [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
          if (forward) {
            y.push_back(x[place]);
          } else {
            dx[place] += operands.at("diff_dst")[output];
          }
        } else if (forward) {
          double sum = 0;
          for (const std::size_t tap : taps) sum += operands.at("src")[tap];
          y.push_back(sum / static_cast<double>(taps.size()));
        } else {
          for (const std::size_t tap : taps) {
            dx[tap] += operands.at("diff_dst")[output] / static_cast<double>(taps.size());
          }
        }
      }
  if (forward) return {{"dst", std::move(y)}};
  return {{"diff_src", std::move(dx)}};
}

}  // namespace forecost
