#include "data/operators/layer_norm.hpp"

#include "data/layer_draft.hpp"
#include "data/operators/passes.hpp"

namespace forecost {

LayerNormShape layer_norm_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1], v[2], v[3] != 0};
}

namespace {

std::int64_t elements(const Layer& layer) {
  const LayerNormShape s = layer_norm_shape(layer);
  return s.batch * s.rows * s.features;
}

std::vector<std::int64_t> parameter_tensors(const Layer& layer) {
  const LayerNormShape s = layer_norm_shape(layer);
  if (!s.affine) return {};
  return {s.features, s.features};
}

/// FLOPs per element, counted from the definition (Ba, Kiros, Hinton 2016, arXiv 1607.06450) and
/// its derivative; what is done once per row (division, root) is left out.
/// Forward, y = g h + b with h = (x - mean) / deviation: sum 1, centre 1, sum of squares 2, scale
/// 1; affine 2. backward: h again 2, d = dy g, the sums of d and d h 3, dx = (d - mean(d) - h
/// mean(d h)) / deviation 4; affine 4: d 1, dg = sum dy h 2, db = sum dy 1. Forward reads x, g and
/// b and writes y; backward reads x, dy and g and writes dx, dg and db. Mean and deviation, two
/// numbers a row, are left out.
Work own_work(const Layer& layer, Pass pass, DType dtype) {
  const LayerNormShape s = layer_norm_shape(layer);
  const auto n = static_cast<double>(elements(layer));
  const double gain = s.affine ? static_cast<double>(s.features) : 0, size = bytes_of(dtype);
  if (pass == Pass::forward) {
    return {.flops = (s.affine ? 7 : 5) * n,
            .bytes_read = size * (n + 2 * gain),
            .bytes_written = size * n,
            .parameters = 2 * gain};
  }
  return {.flops = (s.affine ? 13 : 9) * n,
          .bytes_read = size * (2 * n + gain),
          .bytes_written = size * (n + 2 * gain),
          .parameters = 2 * gain};
}

constexpr ParameterInfo parameters[] = {
    {"batch", 1, 1 << 20, std::nullopt, {}, "items"},
    {"rows", 1, 1 << 20, 1, {}, "rows of each item, such as its positions"},
    {"features", 1, 1 << 22, std::nullopt, {}, "elements of each row"},
    {"affine", 0, 1, 1, {}, "whether a gain and a bias per feature are learned"},
};

constexpr Pass passes[] = {Pass::forward, Pass::backward, Pass::update, Pass::training_step};

}  // namespace

constinit const Operator layer_norm_operator{
    .name = "layer_norm",
    .family = Family::memory_bound,
    .parameters = parameters,
    .passes = passes,
    .check = [](const Layer&) {},
    .work = &work_of_passes<own_work>,
    .parameter_tensors = &parameter_tensors,
    .input_elements = &elements,
    .output_elements = &elements,
    .fit = &fit_rows,
};

}  // namespace forecost
