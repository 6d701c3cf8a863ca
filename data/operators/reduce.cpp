#include "data/operators/reduce.hpp"

#include "data/layer_draft.hpp"
#include "data/operators/passes.hpp"

namespace forecost {

ReduceShape reduce_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1], v[2], static_cast<ReduceOperation>(v[3]), static_cast<ReduceAxis>(v[4])};
}

namespace {

std::int64_t input_elements(const Layer& layer) {
  const ReduceShape s = reduce_shape(layer);
  return s.batch * s.rows * s.features;
}

std::int64_t output_elements(const Layer& layer) {
  const ReduceShape s = reduce_shape(layer);
  return s.batch * (s.axis == ReduceAxis::features ? s.rows : s.features);
}

/// FLOPs counted from the definitions. Forward is one per element, an addition or a comparison with
/// the result so far, and of the mean one division per result; reads x, writes y. backward writes
/// dx: sum broadcasts dy, mean divides it before (1 per result), max puts it where the largest
/// element was and zeroes the rest. It reads dy and, of max, the index of that element, 8 bytes as
/// frameworks keep it.
Work own_work(const Layer& layer, Pass pass, DType dtype) {
  constexpr double index_bytes = 8;
  const ReduceOperation operation = reduce_shape(layer).operation;
  const auto input = static_cast<double>(input_elements(layer)),
             result = static_cast<double>(output_elements(layer)), size = bytes_of(dtype);
  const double divisions = operation == ReduceOperation::mean ? result : 0;
  if (pass == Pass::forward) {
    return {.flops = input + divisions, .bytes_read = size * input, .bytes_written = size * result};
  }
  const double index = operation == ReduceOperation::max ? index_bytes * result : 0;
  return {.flops = divisions, .bytes_read = size * result + index, .bytes_written = size * input};
}

/// One row would be itself.
void complete(LayerDraft& draft) {
  if (draft["axis"] == static_cast<std::int64_t>(ReduceAxis::features) || draft.has("rows")) return;
  throw UsageError("expected a key 'rows', such as rows = 128, or axis = \"features\"");
}

ItemShape output_shape(const Layer& layer, std::span<const ItemShape> /*inputs*/) {
  return {output_elements(layer)};
}

constexpr ParameterInfo parameters[] = {
    {"batch", 1, 1 << 20, std::nullopt, {}, "items"},
    {"rows", 1, 1 << 20, 1, {}, "rows of each item, such as its positions"},
    {"features", 1, 1 << 22, std::nullopt, {}, "elements of each row"},
    {"operation", 0, 2, std::nullopt, EnumNames<ReduceOperation>::names, "that makes one of many"},
    {"axis", 0, 1, std::nullopt, EnumNames<ReduceAxis>::names, "that goes"},
};

}  // namespace

constinit const Operator reduce_operator{
    .name = "reduce",
    .family = Family::memory_bound,
    .parameters = parameters,
    .passes = forward_and_backward,
    .check = [](const Layer&) {},
    .work = &work_of_passes<own_work>,
    .parameter_tensors = &no_parameter_tensors,
    .input_elements = &input_elements,
    .output_elements = &output_elements,
    .complete = &complete,
    .fit = &fit_rows,
    .output_shape = &output_shape,
};

}  // namespace forecost
