#include "train/gradient.hpp"

#include <algorithm>
#include <cstring>

#include "core/training_rules.hpp"

namespace forecost {

namespace {

std::int64_t widest(const MlpShape& shape) {
  std::int64_t width = 1;
  for (std::size_t l = 0; l + 1 < shape.layers(); ++l)
    width = std::max(width, shape.widths()[l + 1]);
  return width;
}

/// The same call on the gradient is its backward.
void apply_dropout(const Dropout& dropout, std::span<const std::uint32_t> rows, std::int64_t width,
                   float* values) {
  const DropoutRule rule(dropout.rate);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    float* row = values + static_cast<std::int64_t>(r) * width;
    for (std::int64_t c = 0; c < width; ++c) {
      row[c] *= rule.factor(dropout.seed, rows[r], static_cast<std::uint64_t>(c));
    }
  }
}

void sum_columns(const float* values, std::int64_t rows, std::int64_t width, float* sums) {
  std::fill(sums, sums + width, 0.0F);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < width; ++c) sums[c] += values[r * width + c];
  }
}

void rectify_gradient(const float* output, std::int64_t count, float* gradient) {
  for (std::int64_t i = 0; i < count; ++i) gradient[i] = rectified_gradient(output[i], gradient[i]);
}

}  // namespace

GradientWorkspace::GradientWorkspace(const MlpShape& shape, std::int64_t rows)
    : x(static_cast<std::size_t>(rows * shape.widths().front())),
      y(static_cast<std::size_t>(rows)),
      forward(shape, rows),
      output(static_cast<std::size_t>(rows)),
      delta(static_cast<std::size_t>(rows * widest(shape))),
      delta_in(static_cast<std::size_t>(rows * widest(shape))) {}

double mlp_gradient(const Gemm& gemm, const MlpShape& shape, const Recipe& recipe,
                    const Dropout& dropout, const float* parameters, const float* x, const float* y,
                    std::span<const std::uint32_t> rows, double scale, GradientWorkspace& w,
                    float* gradient) {
  const auto n = static_cast<std::int64_t>(rows.size());
  const std::int64_t inputs = shape.widths().front();
  const std::size_t last = shape.layers() - 1;
  std::fill(gradient, gradient + shape.size(), 0.0F);
  if (n == 0) return 0;
  for (std::int64_t r = 0; r < n; ++r) {
    const std::uint32_t row = rows[static_cast<std::size_t>(r)];
    std::memcpy(w.x.data() + r * inputs, x + row * inputs,
                static_cast<std::size_t>(inputs) * sizeof(float));
    w.y[static_cast<std::size_t>(r)] = y[row];
  }

  mlp_hidden(gemm, shape, parameters, w.x.data(), n, w.forward);
  const std::int64_t last_width = shape.widths()[last];
  float* hidden = w.forward.hidden.back().data();
  if (dropout.rate > 0) apply_dropout(dropout, rows, last_width, hidden);
  mlp_output(shape, parameters, hidden, n, w.output.data());

  double loss = 0;
  const auto delta_limit = static_cast<float>(recipe.huber_delta);
  for (std::int64_t r = 0; r < n; ++r) {
    float& out = w.output[static_cast<std::size_t>(r)];
    const RowLoss row = row_loss(recipe.loss, delta_limit, out - w.y[static_cast<std::size_t>(r)]);
    loss += row.value;
    out = row.slope * static_cast<float>(scale);
  }

  // The linear output: its weights' gradient is a sum of rows, its input's an outer product.
  const float* weights = parameters + shape.weights_at(last);
  float* weight_gradient = gradient + shape.weights_at(last);
  float bias_gradient = 0;
  for (std::int64_t r = 0; r < n; ++r) {
    const float slope = w.output[static_cast<std::size_t>(r)];
    bias_gradient += slope;
    const float* h = hidden + r * last_width;
    float* d = w.delta.data() + r * last_width;
    for (std::int64_t c = 0; c < last_width; ++c) {
      weight_gradient[c] += slope * h[c];
      d[c] = slope * weights[c];
    }
  }
  gradient[shape.bias_at(last)] = bias_gradient;
  if (dropout.rate > 0) apply_dropout(dropout, rows, last_width, w.delta.data());

  for (std::size_t l = last; l-- > 0;) {
    const std::int64_t in = shape.widths()[l], out = shape.widths()[l + 1];
    rectify_gradient(w.forward.hidden[l].data(), n * out, w.delta.data());
    const float* input = l == 0 ? w.x.data() : w.forward.hidden[l - 1].data();
    gemm.multiply(in, out, n, {input, in, true}, {w.delta.data(), out}, 0,
                  gradient + shape.weights_at(l), out);
    sum_columns(w.delta.data(), n, out, gradient + shape.bias_at(l));
    if (l > 0) {
      gemm.multiply(n, in, out, {w.delta.data(), out},
                    {parameters + shape.weights_at(l), out, true}, 0, w.delta_in.data(), in);
      std::swap(w.delta, w.delta_in);
    }
  }
  return loss;
}

}  // namespace forecost
