#include "data/operators/elementwise.hpp"

#include <fmt/format.h>

#include "data/operators/pointwise.hpp"

namespace forecost {

ElementwiseShape elementwise_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1], static_cast<ElementwiseOperation>(v[2]),
          static_cast<ElementwiseOperand>(v[3])};
}

namespace {

/// Of one gradient, per element: FLOPs, and tensors read.
struct GradientCost {
  double flops, reads;
};

/// y = a op b, with the gradients of a and b, or of a alone where b is a scalar. Counted from the
/// derivatives, a power or logarithm being one FLOP, as in the usual convention. Results are
/// written even where they equal dy, though frameworks may hand dy on instead.
GradientCost gradient_cost(ElementwiseOperation operation, ElementwiseOperand operand) {
  const bool both = operand == ElementwiseOperand::tensor;
  switch (operation) {
    case ElementwiseOperation::add:  // da = db = dy
      return {0, 1};
    case ElementwiseOperation::subtract:  // da = dy, db = -dy
      return {both ? 1.0 : 0.0, 1};
    case ElementwiseOperation::multiply:  // da = dy b, db = dy a
      return both ? GradientCost{2, 3} : GradientCost{1, 1};
    case ElementwiseOperation::divide:  // da = dy / b, db = -da y: of dy, b, y
      return both ? GradientCost{3, 3} : GradientCost{1, 1};
    case ElementwiseOperation::power:  // da = dy b a^(b - 1), db = dy y log a: of dy, a, b, y
      return both ? GradientCost{7, 4} : GradientCost{3, 2};
  }
  return {0, 0};
}

/// A scalar is passed by value and counts as no operand.
std::int64_t input_elements(const Layer& layer) {
  const bool both = elementwise_shape(layer).operand == ElementwiseOperand::tensor;
  return pointwise_elements(layer) * (both ? 2 : 1);
}

/// Forward is one FLOP per element, whatever the operation; it reads a, and b where that is a
/// tensor, and writes y. backward: see gradient_cost.
Work own_work(const Layer& layer, Pass pass, DType dtype) {
  const ElementwiseShape s = elementwise_shape(layer);
  const auto operands = static_cast<double>(input_elements(layer)),
             result = static_cast<double>(pointwise_elements(layer)), size = bytes_of(dtype);
  if (pass == Pass::forward) {
    return {.flops = result, .bytes_read = size * operands, .bytes_written = size * result};
  }
  const GradientCost cost = gradient_cost(s.operation, s.operand);
  return {.flops = cost.flops * result,
          .bytes_read = size * cost.reads * result,
          .bytes_written = size * operands};
}

void fit(LayerDraft& draft, std::span<const ItemShape> inputs) {
  const bool tensor = *draft["operand"] == static_cast<std::int64_t>(ElementwiseOperand::tensor);
  if (tensor && inputs.size() != 2) {
    throw UsageError(
        fmt::format("expected two inputs, as with = \"NAME\", found {}", inputs.size()));
  }
  fit_features(draft, inputs);
  for (const ItemShape& other : inputs.subspan(1)) {
    if (other == inputs[0]) continue;
    throw UsageError(
        fmt::format("inputs of unequal shape, {} and {}", inputs[0].text(), other.text()));
  }
}

constexpr ParameterInfo parameters[] = {
    batch_parameter,
    features_parameter,
    {"operation", 0, 4, std::nullopt, EnumNames<ElementwiseOperation>::names, "of two numbers"},
    {"operand", 0, 1, 0, EnumNames<ElementwiseOperand>::names,
     "the second one: a tensor of the same shape, or one number"},
};

}  // namespace

constinit const Operator elementwise_operator = [] {
  Operator op = pointwise_operator<own_work>("elementwise", parameters);
  op.input_elements = &input_elements;
  op.fit = &fit;
  return op;
}();

}  // namespace forecost
