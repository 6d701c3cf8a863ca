#include "data/operators/activation.hpp"

#include "data/layer_draft.hpp"
#include "data/operators/passes.hpp"

namespace forecost {

ActivationShape activation_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1], static_cast<ActivationFunction>(v[2])};
}

namespace {

std::int64_t elements(const Layer& layer) {
  const ActivationShape s = activation_shape(layer);
  return s.batch * s.features;
}

/// Forward reads x and writes y. backward reads dy and one of x and y, whichever the gradient is
/// written in, and writes dx.
Work own_work(const Layer& layer, Pass pass, DType dtype) {
  const ActivationCost cost = activation_cost(activation_shape(layer).function);
  const auto n = static_cast<double>(elements(layer));
  const double bytes = bytes_of(dtype) * n;
  if (pass == Pass::forward) {
    return {.flops = cost.forward_flops * n, .bytes_read = bytes, .bytes_written = bytes};
  }
  return {.flops = cost.backward_flops * n, .bytes_read = 2 * bytes, .bytes_written = bytes};
}

constexpr ParameterInfo parameters[] = {
    {"batch", 1, 1 << 20, std::nullopt, {}, "items"},
    {"features", 1, std::int64_t{1} << 32, std::nullopt, {}, "elements of each item"},
    {"function", 0, 4, std::nullopt, EnumNames<ActivationFunction>::names, "of each element"},
};

constexpr Pass passes[] = {Pass::forward, Pass::backward};

}  // namespace

constinit const Operator activation_operator{
    .name = "activation",
    .family = Family::memory_bound,
    .parameters = parameters,
    .passes = passes,
    .check = [](const Layer&) {},
    .work = &work_of_passes<own_work>,
    .parameter_tensors = &no_parameter_tensors,
    .input_elements = &elements,
    .output_elements = &elements,
    .fit = &fit_features,
};

}  // namespace forecost
