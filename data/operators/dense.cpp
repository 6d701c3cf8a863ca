#include "data/operators/dense.hpp"

#include "data/layer_draft.hpp"
#include "data/operators/fused.hpp"
#include "data/operators/passes.hpp"

namespace forecost {

DenseShape dense_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1], v[2], v[3] != 0, static_cast<Activation>(v[4])};
}

namespace {

Work affine(const Layer& layer, Pass pass, DType dtype) {
  const DenseShape s = dense_shape(layer);
  const double batch = static_cast<double>(s.batch), in = static_cast<double>(s.in_features),
               out = static_cast<double>(s.out_features);
  return affine_work({.macs = batch * in * out,
                      .input = batch * in,
                      .weights = in * out,
                      .output = batch * out,
                      .bias = s.bias ? out : 0,
                      .activation = s.activation},
                     pass, dtype);
}

std::vector<std::int64_t> parameter_tensors(const Layer& layer) {
  const DenseShape s = dense_shape(layer);
  return weights_and_bias(s.in_features * s.out_features, s.bias ? s.out_features : 0);
}

/// Of a sequence each position is an item of its own.
void fit(LayerDraft& draft, std::span<const ItemShape> inputs) {
  const ItemShape& in = inputs[0];
  draft.follows("batch", in.is_sequence() ? in.sequence().positions : 1);
  draft.follows("in_features", in.is_sequence() ? in.sequence().features : in.elements());
}

ItemShape output_shape(const Layer& layer, std::span<const ItemShape> inputs) {
  const std::int64_t out = dense_shape(layer).out_features;
  if (!inputs[0].is_sequence()) return {out};
  return {inputs[0].sequence().positions, out};
}

constexpr ParameterInfo parameters[] = {
    {"batch", 1, 1 << 20, std::nullopt, {}, "items"},
    {"in_features", 1, 1 << 24, std::nullopt, {}, "inputs of each item"},
    {"out_features", 1, 1 << 24, std::nullopt, {}, "outputs of each item"},
    {"bias", 0, 1, 1, {}, "whether a bias is added"},
    {"activation", 0, 3, 0, EnumNames<Activation>::names, "fused activation"},
};

}  // namespace

constinit const Operator dense_operator{
    .name = "dense",
    .family = Family::gemm,
    .parameters = parameters,
    .passes = affine_passes,
    .check = [](const Layer&) {},
    .work = &work_of_passes<affine>,
    .parameter_tensors = &parameter_tensors,
    .input_elements = [](const Layer& l) { return l.values()[0] * l.values()[1]; },
    .output_elements = [](const Layer& l) { return l.values()[0] * l.values()[2]; },
    .fit = &fit,
    .output_shape = &output_shape,
};

}  // namespace forecost
