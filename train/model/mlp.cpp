#include "train/model/mlp.hpp"

#include <algorithm>

#include <Eigen/Core>

namespace forecost {

MlpShape::MlpShape(std::int64_t inputs, std::span<const std::int64_t> hidden) : widths_{inputs} {
  widths_.insert(widths_.end(), hidden.begin(), hidden.end());
  widths_.push_back(1);
  const auto padded = [](std::int64_t n) { return static_cast<std::size_t>((n + 15) / 16 * 16); };
  for (std::size_t l = 0; l < layers(); ++l) {
    offsets_.push_back(offsets_.back() + padded(widths_[l] * widths_[l + 1]));
    offsets_.push_back(offsets_.back() + padded(widths_[l + 1]));
  }
}

double MlpShape::macs() const {
  double sum = 0;
  for (std::size_t l = 0; l < layers(); ++l) {
    sum += static_cast<double>(widths_[l] * widths_[l + 1]);
  }
  return sum;
}

MlpWorkspace::MlpWorkspace(const MlpShape& shape, std::int64_t row_capacity) : rows(row_capacity) {
  for (std::size_t l = 0; l + 1 < shape.layers(); ++l) {
    hidden.emplace_back(static_cast<std::size_t>(rows * shape.widths()[l + 1]));
  }
}

namespace {

void add_bias_and_rectify(float* values, const float* bias, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = values + r * width;
    for (std::int64_t c = 0; c < width; ++c) {
      const float v = row[c] + bias[c];
      row[c] = v > 0 ? v : 0;
    }
  }
}

}  // namespace

void mlp_hidden(const Gemm& gemm, const MlpShape& shape, const float* parameters, const float* x,
                std::int64_t rows, MlpWorkspace& workspace) {
  const float* in = x;
  for (std::size_t l = 0; l + 1 < shape.layers(); ++l) {
    const std::int64_t width_in = shape.widths()[l], width = shape.widths()[l + 1];
    float* out = workspace.hidden[l].data();
    gemm.multiply(rows, width, width_in, {in, width_in}, {parameters + shape.weights_at(l), width},
                  0, out, width);
    add_bias_and_rectify(out, parameters + shape.bias_at(l), rows, width);
    in = out;
  }
}

void mlp_output(const MlpShape& shape, const float* parameters, const float* last_hidden,
                std::int64_t rows, float* y) {
  const std::size_t last = shape.layers() - 1;
  const std::int64_t width = shape.widths()[last];
  using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const RowMajor> in(last_hidden, rows, width);
  const Eigen::Map<const Eigen::VectorXf> weights(parameters + shape.weights_at(last), width);
  Eigen::Map<Eigen::VectorXf> out(y, rows);
  out.noalias() = in * weights;
  out.array() += parameters[shape.bias_at(last)];
}

void mlp_predict(const Gemm& gemm, const MlpShape& shape, std::span<const float> parameters,
                 const float* x, std::int64_t rows, float* y) {
  constexpr std::int64_t block = 256;
  MlpWorkspace workspace(shape, std::min(block, rows));
  const std::int64_t inputs = shape.widths().front();
  for (std::int64_t first = 0; first < rows; first += block) {
    const std::int64_t n = std::min(block, rows - first);
    mlp_hidden(gemm, shape, parameters.data(), x + first * inputs, n, workspace);
    const float* last =
        workspace.hidden.empty() ? x + first * inputs : workspace.hidden.back().data();
    mlp_output(shape, parameters.data(), last, n, y + first);
  }
}

}  // namespace forecost
