#include "data/operators/pool2d.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "data/layer_draft.hpp"
#include "data/operators/passes.hpp"

namespace forecost {

Pool2dShape pool2d_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0],
          v[1],
          v[2],
          v[3],
          v[4],
          v[5],
          v[6],
          v[7],
          v[8],
          v[9],
          v[10],
          v[11],
          static_cast<PoolMode>(v[12])};
}

namespace {

void check(const Layer& layer) {
  const Pool2dShape s = pool2d_shape(layer);
  if (s.mode == PoolMode::global_average) {
    for (std::size_t i = 4; i < 12; ++i) {
      const ParameterInfo& parameter = layer.op().parameters[i];
      if (layer.values()[i] == parameter.default_value) continue;
      throw UsageError(fmt::format(
          "pool2d: global_average takes the whole image; expected no {} beside it, found {}",
          parameter.name, layer.values()[i]));
    }
  }
  check_window("pool2d", s.vertical(), s.horizontal());
  if (std::max(s.pad_top, s.pad_bottom) >= s.vertical().kernel ||
      std::max(s.pad_left, s.pad_right) >= s.horizontal().kernel) {
    throw UsageError(fmt::format(
        "pool2d: with pads of {}, {}, {} and {} a window of {}x{} would see padding alone; "
        "expected pads smaller than the kernel",
        s.pad_top, s.pad_bottom, s.pad_left, s.pad_right, s.kernel_h, s.kernel_w));
  }
}

std::int64_t input_elements(const Layer& layer) {
  const Pool2dShape s = pool2d_shape(layer);
  return s.batch * s.channels * s.in_h * s.in_w;
}

std::int64_t output_elements(const Layer& layer) {
  const Pool2dShape s = pool2d_shape(layer);
  return s.batch * s.channels * s.out_h() * s.out_w();
}

/// FLOPs counted from the definitions. Forward, one for each tap that meets the image: max compares
/// it with the largest so far, average adds it to the sum (one fewer, and the division). Reads x,
/// writes y; the index of max, which training alone keeps, is left out. backward of max adds each
/// dy to dx at its index: reads dy and the index, see Pool2dShape::index_bytes. backward of average
/// divides each dy and adds it at every tap: reads dy. Both write dx.
Work own_work(const Layer& layer, Pass pass, DType dtype) {
  const Pool2dShape s = pool2d_shape(layer);
  const auto input = static_cast<double>(input_elements(layer)),
             output = static_cast<double>(output_elements(layer)), size = bytes_of(dtype);
  const double taps = static_cast<double>(s.batch * s.channels) *
                      static_cast<double>(s.vertical().taps_inside()) *
                      static_cast<double>(s.horizontal().taps_inside());
  if (pass == Pass::forward) {
    return {.flops = taps,
            .bytes_read = size * input,
            .bytes_written = size * output,
            .avoidable_bytes = size * input * stepped_over_share(s.vertical(), s.horizontal())};
  }
  return {.flops = s.mode == PoolMode::max ? output : output + taps,
          .bytes_read = (size + static_cast<double>(s.index_bytes())) * output,
          .bytes_written = size * input};
}

/// The kernel's default is that of global_average alone. The stride is the kernel unless told
/// otherwise, as in frameworks.
void complete(LayerDraft& draft) {
  if (draft["mode"] == static_cast<std::int64_t>(PoolMode::global_average)) return;
  if (!draft.has("kernel_h") || !draft.has("kernel_w")) {
    throw UsageError("expected a key 'kernel', such as kernel = 2, or mode = \"global_average\"");
  }
  draft.fill("stride_h", *draft["kernel_h"]);
  draft.fill("stride_w", *draft["kernel_w"]);
}

void fit(LayerDraft& draft, std::span<const ItemShape> inputs) {
  fit_image(draft, inputs[0], "channels", "in_h", "in_w");
}

ItemShape output_shape(const Layer& layer, std::span<const ItemShape> /*inputs*/) {
  const Pool2dShape s = pool2d_shape(layer);
  if (s.mode == PoolMode::global_average) return {s.channels};
  return {s.channels, s.out_h(), s.out_w()};
}

constexpr std::int64_t side_max = 1 << 16;

constexpr ParameterInfo parameters[] = {
    {"batch", 1, 1 << 20, std::nullopt, {}, "items"},
    {"channels", 1, 1 << 20, std::nullopt, {}, "channels, each pooled by itself"},
    {"in_h", 1, side_max, std::nullopt, {}, "height of the input"},
    {"in_w", 1, side_max, std::nullopt, {}, "width of the input"},
    {"kernel_h", 1, 4096, 1, {}, "height of the window"},
    {"kernel_w", 1, 4096, 1, {}, "width of the window"},
    {"stride_h", 1, 4096, 1, {}, "vertical step"},
    {"stride_w", 1, 4096, 1, {}, "horizontal step"},
    {"pad_top", 0, 4096, 0, {}, "rows of padding above"},
    {"pad_bottom", 0, 4096, 0, {}, "rows of padding below"},
    {"pad_left", 0, 4096, 0, {}, "columns of padding before"},
    {"pad_right", 0, 4096, 0, {}, "columns of padding after"},
    {"mode", 0, 2, std::nullopt, EnumNames<PoolMode>::names, "what is made of a window"},
};

}  // namespace

constinit const Operator pool2d_operator{
    .name = "pool2d",
    .family = Family::memory_bound,
    .parameters = parameters,
    .passes = forward_and_backward,
    .check = &check,
    .work = &work_of_passes<own_work>,
    .parameter_tensors = &no_parameter_tensors,
    .input_elements = &input_elements,
    .output_elements = &output_elements,
    .same_padding = &same_padding,
    .complete = &complete,
    .fit = &fit,
    .output_shape = &output_shape,
};

}  // namespace forecost
