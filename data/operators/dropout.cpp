#include "data/operators/dropout.hpp"

#include "data/layer_draft.hpp"
#include "data/operators/passes.hpp"

namespace forecost {

DropoutShape dropout_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1]};
}

namespace {

std::int64_t elements(const Layer& layer) {
  const DropoutShape s = dropout_shape(layer);
  return s.batch * s.features;
}

/// FLOPs per element, counted from the definition scaled in training (Srivastava et al. 2014,
/// section 10); the random number is left out. Forward, m = u < kept, y = x m / kept: 3; reads x,
/// writes y and the mask, a byte per element. backward, dx = dy m / kept: 2; reads dy and the mask,
/// writes dx.
Work own_work(const Layer& layer, Pass pass, DType dtype) {
  const auto n = static_cast<double>(elements(layer));
  const double bytes = bytes_of(dtype) * n, mask = n;
  if (pass == Pass::forward) {
    return {.flops = 3 * n, .bytes_read = bytes, .bytes_written = bytes + mask};
  }
  return {.flops = 2 * n, .bytes_read = bytes + mask, .bytes_written = bytes};
}

constexpr ParameterInfo parameters[] = {
    {"batch", 1, 1 << 20, std::nullopt, {}, "items"},
    {"features", 1, std::int64_t{1} << 32, std::nullopt, {}, "elements of each item"},
};

constexpr Pass passes[] = {Pass::forward, Pass::backward};

}  // namespace

constinit const Operator dropout_operator{
    .name = "dropout",
    .family = Family::memory_bound,
    .parameters = parameters,
    .passes = passes,
    .check = [](const Layer&) {},
    .work = &work_of_passes<own_work>,
    .parameter_tensors = &no_parameter_tensors,
    .input_elements = &elements,
    .output_elements = &elements,
    .fit = &fit_features,
    .training_only = true,
};

}  // namespace forecost
