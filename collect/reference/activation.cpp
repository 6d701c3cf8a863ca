#include "data/operators/activation.hpp"

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "collect/reference/references.hpp"

namespace forecost {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
/// Of the normal distribution: its integral up to x.
double below(double x) { return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)); }

double value(ActivationFunction function, double x) {
  switch (function) {
    case ActivationFunction::relu:
      return std::max(x, 0.0);
    case ActivationFunction::tanh:
      return std::tanh(x);
    case ActivationFunction::sigmoid:
      return sigmoid(x);
    case ActivationFunction::gelu:
      return x * below(x);
    case ActivationFunction::silu:
      return x * sigmoid(x);
  }
  throw std::logic_error("an activation has no such function");
}

/// f'(x), from f(x) of relu, tanh and sigmoid, from x of the others.
double slope(ActivationFunction function, double v) {
  switch (function) {
    case ActivationFunction::relu:
      return v > 0 ? 1 : 0;
    case ActivationFunction::tanh:
      return 1 - v * v;
    case ActivationFunction::sigmoid:
      return v * (1 - v);
    case ActivationFunction::gelu:
      return below(v) + v * std::exp(-v * v / 2) / std::sqrt(2 * std::numbers::pi);
    case ActivationFunction::silu:
      return sigmoid(v) * (1 + v * (1 - sigmoid(v)));
  }
  throw std::logic_error("an activation has no such function");
}

}  // namespace

Operands activation_reference(const Task& task, const Operands& operands) {
  const ActivationFunction function = activation_shape(task.layer).function;
  if (task.pass == Pass::forward) {
    std::vector<double> y = operands.at("src");
    for (double& each : y) each = value(function, each);
    return {{"dst", std::move(y)}};
  }
  const bool from_input =
      function == ActivationFunction::gelu || function == ActivationFunction::silu;
  const auto& kept = operands.at(from_input ? "src" : "dst");
  std::vector<double> dx = operands.at("diff_dst");
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] *= slope(function, kept[i]);
  return {{"diff_src", std::move(dx)}};
}

}  // namespace forecost
