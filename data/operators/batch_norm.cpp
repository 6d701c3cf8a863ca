#include "data/operators/batch_norm.hpp"

#include "data/layer_draft.hpp"
#include "data/operators/passes.hpp"

namespace forecost {

BatchNormShape batch_norm_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1], v[2], v[3], v[4] != 0};
}

namespace {

std::int64_t elements(const Layer& layer) {
  const BatchNormShape s = batch_norm_shape(layer);
  return s.batch * s.channels * s.height * s.width;
}

/// FLOPs per element, counted from the definition (Ioffe, Szegedy 2015, arXiv 1502.03167) and its
/// derivative; what is done once per channel (division, root, folding) is left out.
/// With the batch's statistics as layer_norm, 7 forward and 13 backward. With stored ones forward
/// is y = a x + c, 2; backward, of whoever trains with frozen statistics, h = (x - mean) /
/// deviation 2, dx = a dy 1, dg = sum dy h 2, db = sum dy 1. Forward reads x, gain, bias and, if
/// stored, mean and variance; it writes y and, if computed, mean and variance. backward reads x,
/// dy, gain, mean and variance and writes dx, dg and db. Running averages are left out.
Work own_work(const Layer& layer, Pass pass, DType dtype) {
  const BatchNormShape s = batch_norm_shape(layer);
  const auto n = static_cast<double>(elements(layer)), c = static_cast<double>(s.channels),
             size = bytes_of(dtype);
  if (pass == Pass::forward) {
    return {.flops = (s.training ? 7 : 2) * n,
            .bytes_read = size * (n + (s.training ? 2 : 4) * c),
            .bytes_written = size * (n + (s.training ? 2 : 0) * c),
            .parameters = 2 * c};
  }
  return {.flops = (s.training ? 13 : 6) * n,
          .bytes_read = size * (2 * n + 3 * c),
          .bytes_written = size * (n + 2 * c),
          .parameters = 2 * c};
}

void fit(LayerDraft& draft, std::span<const ItemShape> inputs) {
  fit_image(draft, inputs[0], "channels", "height", "width");
}

constexpr std::int64_t side_max = 1 << 16;

constexpr ParameterInfo parameters[] = {
    {"batch", 1, 1 << 20, std::nullopt, {}, "items"},
    {"channels", 1, 1 << 20, std::nullopt, {}, "channels, each normalised by itself"},
    {"height", 1, side_max, 1, {}, "height of the image"},
    {"width", 1, side_max, 1, {}, "width of the image"},
    {"training", 0, 1, 1, {}, "statistics of the batch (1) or stored ones (0)"},
};

constexpr Pass passes[] = {Pass::forward, Pass::backward, Pass::update, Pass::training_step};

}  // namespace

constinit const Operator batch_norm_operator{
    .name = "batch_norm",
    .family = Family::memory_bound,
    .parameters = parameters,
    .passes = passes,
    .check = [](const Layer&) {},
    .work = &work_of_passes<own_work>,
    .parameter_tensors =
        [](const Layer& l) { return std::vector<std::int64_t>(2, batch_norm_shape(l).channels); },
    .input_elements = &elements,
    .output_elements = &elements,
    .fit = &fit,
};

}  // namespace forecost
