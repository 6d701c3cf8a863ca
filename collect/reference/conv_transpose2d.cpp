#include "data/operators/conv_transpose2d.hpp"

#include "collect/reference/references.hpp"

namespace forecost {

namespace {

/// Calls visit(source index, weight index, destination index) for every multiply-add: each input
/// is scattered over the outputs that its kernel reaches.
template <class Visit>
void for_each_product(const ConvTranspose2dShape& s, Visit visit) {
  const std::int64_t ic_group = s.in_channels / s.groups, oc_group = s.out_channels / s.groups;
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t c = 0; c < s.in_channels; ++c)
      for (std::int64_t h = 0; h < s.in_h; ++h)
        for (std::int64_t w = 0; w < s.in_w; ++w)
          for (std::int64_t o = 0; o < oc_group; ++o)
            for (std::int64_t kh = 0; kh < s.kernel_h; ++kh)
              for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
                const std::int64_t oh = h * s.stride_h - s.pad_top + kh * s.dilation_h;
                const std::int64_t ow = w * s.stride_w - s.pad_left + kw * s.dilation_w;
                if (oh < 0 || oh >= s.out_h() || ow < 0 || ow >= s.out_w()) continue;
                const std::int64_t oc = c / ic_group * oc_group + o;
                visit(static_cast<std::size_t>(((n * s.in_channels + c) * s.in_h + h) * s.in_w + w),
                      static_cast<std::size_t>(
                          ((oc * ic_group + c % ic_group) * s.kernel_h + kh) * s.kernel_w + kw),
                      static_cast<std::size_t>(
                          ((n * s.out_channels + oc) * s.out_h() + oh) * s.out_w() + ow));
              }
}

}  // namespace

Operands conv_transpose2d_reference(const Task& task, const Operands& operands) {
  const ConvTranspose2dShape s = conv_transpose2d_shape(task.layer);
  const auto out_plane = static_cast<std::size_t>(s.out_h() * s.out_w()),
             out_channels = static_cast<std::size_t>(s.out_channels),
             out_elements = static_cast<std::size_t>(s.batch) * out_channels * out_plane;
  const auto channel_of = [&](std::size_t k) { return k / out_plane % out_channels; };
  if (task.pass == Pass::forward) {
    const auto &x = operands.at("src"), &w = operands.at("weights");
    std::vector<double> y(out_elements);
    for_each_product(s, [&](auto i, auto j, auto k) { y[k] += x[i] * w[j]; });
    if (s.bias) {
      const auto& b = operands.at("bias");
      for (std::size_t k = 0; k < y.size(); ++k) y[k] += b[channel_of(k)];
    }
    return {{"dst", std::move(y)}};
  }
  const auto& dy = operands.at("diff_dst");
  if (task.pass == Pass::backward_data) {
    const auto& w = operands.at("weights");
    std::vector<double> dx(static_cast<std::size_t>(s.batch * s.in_channels * s.in_h * s.in_w));
    for_each_product(s, [&](auto i, auto j, auto k) { dx[i] += dy[k] * w[j]; });
    return {{"diff_src", std::move(dx)}};
  }
  const auto& x = operands.at("src");
  std::vector<double> dw(static_cast<std::size_t>(s.weight_elements()));
  for_each_product(s, [&](auto i, auto j, auto k) { dw[j] += dy[k] * x[i]; });
  Operands results{{"diff_weights", std::move(dw)}};
  if (s.bias) {
    std::vector<double>& db = results["diff_bias"];
    db.resize(out_channels);
    for (std::size_t k = 0; k < out_elements; ++k) db[channel_of(k)] += dy[k];
  }
  return results;
}

}  // namespace forecost
