#include "data/operators/embedding.hpp"

#include <cmath>

#include "data/layer_draft.hpp"
#include "data/operators/passes.hpp"

namespace forecost {

EmbeddingShape embedding_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1], v[2], v[3]};
}

namespace {

/// Ids.
std::int64_t input_elements(const Layer& layer) {
  const EmbeddingShape s = embedding_shape(layer);
  return s.batch * s.length;
}

std::int64_t output_elements(const Layer& layer) {
  return input_elements(layer) * embedding_shape(layer).features;
}

/// Counted from what frameworks run. Forward copies rows: reads ids and a row for each, writes y.
/// backward zeroes the table's gradient, then adds each row of dy to its own: one FLOP per element;
/// reads ids, dy and the rows, writes the whole gradient and the rows. Each id is counted as a row
/// of its own, though some may repeat.
Work own_work(const Layer& layer, Pass pass, DType dtype) {
  constexpr double id_bytes = 8;
  const EmbeddingShape s = embedding_shape(layer);
  const double ids = id_bytes * static_cast<double>(input_elements(layer)), size = bytes_of(dtype),
               table = static_cast<double>(s.entries * s.features);
  const auto rows = static_cast<double>(output_elements(layer));
  // Of uniform ids, those of rows that others have read before are expected to be the rest.
  const double count = static_cast<double>(input_elements(layer)),
               entries = static_cast<double>(s.entries),
               distinct = -entries * std::expm1(-count / entries);
  if (pass == Pass::forward) {
    return {.bytes_read = ids + size * rows,
            .bytes_written = size * rows,
            .parameters = table,
            .avoidable_bytes = size * static_cast<double>(s.features) * (count - distinct)};
  }
  return {.flops = rows,
          .bytes_read = ids + size * 2 * rows,
          .bytes_written = size * (table + rows),
          .parameters = table,
          .avoidable_bytes = size * rows};
}

/// The input is a vector of ids.
void fit(LayerDraft& draft, std::span<const ItemShape> inputs) {
  if (inputs[0].sides().size() != 1) {
    throw UsageError("expected a vector of ids, found " + inputs[0].text());
  }
  draft.follows("length", inputs[0].elements());
}

ItemShape output_shape(const Layer& layer, std::span<const ItemShape> /*inputs*/) {
  const EmbeddingShape s = embedding_shape(layer);
  return {s.length, s.features};
}

constexpr ParameterInfo parameters[] = {
    {"batch", 1, 1 << 20, std::nullopt, {}, "items"},
    {"length", 1, 1 << 20, 1, {}, "ids of each item, such as its positions"},
    {"entries", 1, std::int64_t{1} << 32, std::nullopt, {}, "rows of the table"},
    {"features", 1, 1 << 20, std::nullopt, {}, "elements of each row"},
};

constexpr Pass passes[] = {Pass::forward, Pass::backward, Pass::update, Pass::training_step};

}  // namespace

constinit const Operator embedding_operator{
    .name = "embedding",
    .family = Family::memory_bound,
    .parameters = parameters,
    .passes = passes,
    .check = [](const Layer&) {},
    .work = &work_of_passes<own_work>,
    .parameter_tensors =
        [](const Layer& l) {
          const EmbeddingShape s = embedding_shape(l);
          return std::vector<std::int64_t>{s.entries * s.features};
        },
    .input_elements = &input_elements,
    .output_elements = &output_elements,
    .fit = &fit,
    .output_shape = &output_shape,
};

}  // namespace forecost
