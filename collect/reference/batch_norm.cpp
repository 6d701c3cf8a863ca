#include "data/operators/batch_norm.hpp"

#include <cmath>

#include "collect/reference/references.hpp"

namespace forecost {

namespace {

constexpr double epsilon = 1e-5;

}  // namespace

Operands batch_norm_reference(const Task& task, const Operands& operands) {
  const BatchNormShape s = batch_norm_shape(task.layer);
  const auto channels = static_cast<std::size_t>(s.channels),
             plane = static_cast<std::size_t>(s.height * s.width);
  const auto& x = operands.at("src");
  const auto &scale = operands.at("scale"), &shift = operands.at("shift");
  const double n = static_cast<double>(s.batch) * static_cast<double>(plane);
  std::vector<double> mean(channels), variance(channels);
  const auto channel_of = [&](std::size_t i) { return i / plane % channels; };
  if (s.training) {
    for (std::size_t i = 0; i < x.size(); ++i) mean[channel_of(i)] += x[i] / n;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double d = x[i] - mean[channel_of(i)];
      variance[channel_of(i)] += d * d / n;
    }
  } else {
    mean = operands.at("mean");
    variance = operands.at("variance");
  }
  const auto normalised = [&](std::size_t i) {
    return (x[i] - mean[channel_of(i)]) / std::sqrt(variance[channel_of(i)] + epsilon);
  };
  if (task.pass == Pass::forward) {
    std::vector<double> y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] = scale[channel_of(i)] * normalised(i) + shift[channel_of(i)];
    }
    if (!s.training) return {{"dst", std::move(y)}};
    return {{"dst", std::move(y)}, {"mean", std::move(mean)}, {"variance", std::move(variance)}};
  }
  const auto& dy = operands.at("diff_dst");
  std::vector<double> dscale(channels), dshift(channels), dx(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    dscale[channel_of(i)] += dy[i] * normalised(i);
    dshift[channel_of(i)] += dy[i];
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = channel_of(i);
    double gradient = dy[i];
    // Through the statistics of the batch; stored ones are constants.
    if (s.training) gradient -= (dshift[c] + normalised(i) * dscale[c]) / n;
    dx[i] = scale[c] / std::sqrt(variance[c] + epsilon) * gradient;
  }
  return {{"diff_src", std::move(dx)},
          {"diff_scale", std::move(dscale)},
          {"diff_shift", std::move(dshift)}};
}

}  // namespace forecost
