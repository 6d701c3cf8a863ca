#include "data/operators/softmax.hpp"

#include "data/layer_draft.hpp"
#include "data/operators/passes.hpp"

namespace forecost {

SoftmaxShape softmax_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1], v[2]};
}

namespace {

std::int64_t elements(const Layer& layer) {
  const SoftmaxShape s = softmax_shape(layer);
  return s.batch * s.rows * s.features;
}

/// FLOPs per element, counted from the definition that does not overflow (Goodfellow, Bengio,
/// Courville, Deep Learning, 2016, section 4.1); an exponential is one, as in the usual convention.
/// Forward, y = exp(x - max) / sum: maximum 1, subtraction 1, exponential 1, sum 1, division 1;
/// reads x, writes y. backward, dx = y (dy - sum(dy y)): 2 for the sum, 2 more; reads y and dy,
/// writes dx.
Work own_work(const Layer& layer, Pass pass, DType dtype) {
  const auto n = static_cast<double>(elements(layer));
  const double bytes = bytes_of(dtype) * n;
  if (pass == Pass::forward) {
    return {.flops = 5 * n, .bytes_read = bytes, .bytes_written = bytes};
  }
  return {.flops = 4 * n, .bytes_read = 2 * bytes, .bytes_written = bytes};
}

constexpr ParameterInfo parameters[] = {
    {"batch", 1, 1 << 20, std::nullopt, {}, "items"},
    {"rows", 1, 1 << 20, 1, {}, "rows of each item, such as its positions"},
    {"features", 1, 1 << 22, std::nullopt, {}, "elements of each row"},
};

}  // namespace

constinit const Operator softmax_operator{
    .name = "softmax",
    .family = Family::memory_bound,
    .parameters = parameters,
    .passes = forward_and_backward,
    .check = [](const Layer&) {},
    .work = &work_of_passes<own_work>,
    .parameter_tensors = &no_parameter_tensors,
    .input_elements = &elements,
    .output_elements = &elements,
    .fit = &fit_rows,
};

}  // namespace forecost
