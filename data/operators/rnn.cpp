#include "data/operators/rnn.hpp"

#include "data/layer_draft.hpp"
#include "data/operators/passes.hpp"

namespace forecost {

RnnShape rnn_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1], v[2], v[3], v[4], v[5] != 0, static_cast<RnnCell>(v[6])};
}

namespace {

std::int64_t input_elements(const Layer& layer) {
  const RnnShape s = rnn_shape(layer);
  return s.batch * s.steps * s.in_features;
}

std::int64_t output_elements(const Layer& layer) {
  const RnnShape s = rnn_shape(layer);
  return s.batch * s.steps * s.directions() * s.hidden_features;
}

/// Of each layer and direction in turn: input weights, recurrent weights, and their biases.
std::vector<std::int64_t> parameter_tensors(const Layer& layer) {
  const RnnShape s = rnn_shape(layer);
  const std::int64_t rows = s.gates() * s.hidden_features;
  std::vector<std::int64_t> tensors;
  for (std::int64_t i = 0; i < s.layers; ++i) {
    for (std::int64_t direction = 0; direction < s.directions(); ++direction) {
      tensors.insert(tensors.end(), {rows * s.input_of(i), rows * s.hidden_features, rows, rows});
    }
  }
  return tensors;
}

/// FLOPs per hidden element and step besides the products.
struct CellCost {
  double forward_flops, backward_flops;
};

/// Counted from the definitions, W x and U h being the products, b and c the biases; a sigmoid is 3
/// and a tanh 1 as activation_cost has them. Gradients add dh of this step's output and of the next
/// step (1), and both biases' sums (2 per gate).
CellCost cell_cost(RnnCell cell) {
  switch (cell) {
    // Elman 1990: h = tanh(W x + b + U h + c): 3 + 1. Gradient: dz = dh (1 - h h) 3.
    case RnnCell::vanilla:
      return {4, 1 + 3 + 2};
    // Hochreiter, Schmidhuber 1997, with the forget gate of Gers et al. 2000: four gates of 3
    // additions, 3 sigmoids and a tanh, c = f c + i g 3, h = o tanh(c) 2. Gradient: do 1, dc +=
    // dh o (1 - tanh(c)^2) 5, df, di, dg and the earlier dc 4, through the gates 3 * 3 + 3.
    case RnnCell::lstm:
      return {12 + 9 + 1 + 3 + 2, 1 + 1 + 5 + 4 + 12 + 8};
    // Cho et al. 2014 (arXiv 1406.1078), as cuDNN has it: r and z of 3 additions and a sigmoid,
    // n = tanh(W x + b + r (U h + c)) 5, h = (1 - z) n + z h 4. Gradient: dn 2, dz 2, the earlier
    // dh 2, through tanh 3, dr 1 and of its product 1, through the sigmoids 2 * 3.
    case RnnCell::gru:
      return {6 + 6 + 5 + 4, 1 + 2 + 2 + 2 + 3 + 2 + 6 + 6};
  }
  return {0, 0};
}

/// The products are 2 FLOPs per weight, item and step forward and twice that backward (data and
/// weights); the rest see cell_cost. Forward reads x, the parameters and what lies between layers,
/// and writes each layer's output. backward reads x, all outputs, dy, the parameters and the
/// gradients between layers; it writes those, dx and the parameters' gradients. Weights are counted
/// once, not once per step, and what a library keeps of the forward pass (gates, cell states) not
/// at all.
Work own_work(const Layer& layer, Pass pass, DType dtype) {
  const RnnShape s = rnn_shape(layer);
  const auto input = static_cast<double>(input_elements(layer)),
             output = static_cast<double>(output_elements(layer)),
             parameters = static_cast<double>(layer.parameter_count()),
             layers = static_cast<double>(s.layers), size = bytes_of(dtype);
  double weights = 0;
  for (std::int64_t i = 0; i < s.layers; ++i) {
    weights += static_cast<double>(s.directions() * s.gates() * s.hidden_features *
                                   (s.input_of(i) + s.hidden_features));
  }
  const double products = 2 * weights * static_cast<double>(s.batch * s.steps);
  const CellCost cost = cell_cost(s.cell);
  if (pass == Pass::forward) {
    return {.flops = products + cost.forward_flops * layers * output,
            .bytes_read = size * (input + parameters + (layers - 1) * output),
            .bytes_written = size * layers * output,
            .parameters = parameters};
  }
  return {.flops = 2 * products + cost.backward_flops * layers * output,
          .bytes_read = size * (input + 2 * layers * output + parameters),
          .bytes_written = size * (input + (layers - 1) * output + parameters),
          .parameters = parameters};
}

void fit(LayerDraft& draft, std::span<const ItemShape> inputs) {
  const ItemShape::Sequence in = inputs[0].sequence();
  draft.follows("steps", in.positions);
  draft.follows("in_features", in.features);
}

ItemShape output_shape(const Layer& layer, std::span<const ItemShape> /*inputs*/) {
  const RnnShape s = rnn_shape(layer);
  return {s.steps, s.directions() * s.hidden_features};
}

constexpr ParameterInfo parameters[] = {
    {"batch", 1, 1 << 20, std::nullopt, {}, "items"},
    {"steps", 1, 1 << 20, std::nullopt, {}, "steps of each item"},
    {"in_features", 1, 1 << 16, std::nullopt, {}, "inputs of each step"},
    {"hidden_features", 1, 1 << 16, std::nullopt, {}, "outputs of each step and direction"},
    {"layers", 1, 256, 1, {}, "layers one above the other"},
    {"bidirectional", 0, 1, 0, {}, "whether a second one runs from the last step to the first"},
    {"cell", 0, 2, std::nullopt, EnumNames<RnnCell>::names, "what a step computes"},
};

constexpr Pass passes[] = {Pass::forward, Pass::backward, Pass::update, Pass::training_step};

}  // namespace

constinit const Operator rnn_operator{
    .name = "rnn",
    .family = Family::recurrent,
    .parameters = parameters,
    .passes = passes,
    .check = [](const Layer&) {},
    .work = &work_of_passes<own_work>,
    .parameter_tensors = &parameter_tensors,
    .input_elements = &input_elements,
    .output_elements = &output_elements,
    .fit = &fit,
    .output_shape = &output_shape,
};

}  // namespace forecost
