#include "data/operators/activation.hpp"

#include "data/operators/pointwise.hpp"

namespace forecost {

ActivationShape activation_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1], static_cast<ActivationFunction>(v[2])};
}

namespace {

/// Forward reads x and writes y. backward reads dy and one of x and y, whichever the gradient is
/// written in, and writes dx.
Work own_work(const Layer& layer, Pass pass, DType dtype) {
  const ActivationCost cost = activation_cost(activation_shape(layer).function);
  const auto n = static_cast<double>(pointwise_elements(layer));
  const double bytes = bytes_of(dtype) * n;
  if (pass == Pass::forward) {
    return {.flops = cost.forward_flops * n, .bytes_read = bytes, .bytes_written = bytes};
  }
  return {.flops = cost.backward_flops * n, .bytes_read = 2 * bytes, .bytes_written = bytes};
}

constexpr ParameterInfo parameters[] = {
    batch_parameter,
    features_parameter,
    {"function", 0, 4, std::nullopt, EnumNames<ActivationFunction>::names, "of each element"},
};

}  // namespace

constinit const Operator activation_operator =
    pointwise_operator<own_work>("activation", parameters);

}  // namespace forecost
