#include "data/operators/elementwise.hpp"

#include <cmath>
#include <stdexcept>

#include "collect/reference/references.hpp"

namespace forecost {
namespace {

double value(ElementwiseOperation operation, double a, double b) {
  switch (operation) {
    case ElementwiseOperation::add:
      return a + b;
    case ElementwiseOperation::subtract:
      return a - b;
    case ElementwiseOperation::multiply:
      return a * b;
    case ElementwiseOperation::divide:
      return a / b;
    case ElementwiseOperation::power:
      return std::pow(a, b);
  }
  throw std::logic_error("elementwise has no such operation");
}

/// dy/da and dy/db.
struct Slopes {
  double a, b;
};
Slopes slopes(ElementwiseOperation operation, double a, double b, double y) {
  switch (operation) {
    case ElementwiseOperation::add:
      return {1, 1};
    case ElementwiseOperation::subtract:
      return {1, -1};
    case ElementwiseOperation::multiply:
      return {b, a};
    case ElementwiseOperation::divide:
      return {1 / b, -y / b};
    case ElementwiseOperation::power:
      return {b * std::pow(a, b - 1), y * std::log(a)};
  }
  throw std::logic_error("elementwise has no such operation");
}

}  // namespace

Operands elementwise_reference(const Task& task, const Operands& operands) {
  const ElementwiseShape s = elementwise_shape(task.layer);
  const bool both = s.operand == ElementwiseOperand::tensor, forward = task.pass == Pass::forward;
  const auto at = [&](const char* name, std::size_t i) {
    const auto found = operands.find(name);
    return found == operands.end() ? NAN
                                   : found->second[i];  // NAN where it should not be looked at
  };
  std::vector<double> first(static_cast<std::size_t>(s.batch * s.features)), second;
  if (both && !forward) second.resize(first.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double a = at("src", i), b = both ? at("other", i) : elementwise_scalar;
    if (forward) {
      first[i] = value(s.operation, a, b);
      continue;
    }
    const Slopes slope = slopes(s.operation, a, b, at("dst", i));
    first[i] = at("diff_dst", i) * slope.a;
    if (both) second[i] = at("diff_dst", i) * slope.b;
  }
  if (forward) return {{"dst", std::move(first)}};
  Operands results{{"diff_src", std::move(first)}};
  if (both) results["diff_other"] = std::move(second);
  return results;
}

}  // namespace forecost
