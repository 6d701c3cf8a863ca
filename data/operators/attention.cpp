#include "data/operators/attention.hpp"

#include <fmt/format.h>

#include "data/layer_draft.hpp"
#include "data/operators/passes.hpp"

namespace forecost {

AttentionShape attention_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1], v[2], v[3], v[4], v[5] != 0};
}

namespace {

void check(const Layer& layer) {
  const AttentionShape s = attention_shape(layer);
  if (s.causal && s.query_length > s.key_length) {
    throw UsageError(
        fmt::format("attention: causal=1 with query_length={} above key_length={}: queries are the "
                    "last positions of the keys' sequence",
                    s.query_length, s.key_length));
  }
}

/// Of Q, K and V.
std::int64_t input_elements(const Layer& layer) {
  const AttentionShape s = attention_shape(layer);
  return s.batch * s.heads * s.head_features * (s.query_length + 2 * s.key_length);
}

std::int64_t output_elements(const Layer& layer) {
  const AttentionShape s = attention_shape(layer);
  return s.batch * s.heads * s.head_features * s.query_length;
}

/// Scaled dot-product attention (Vaswani et al. 2017, arXiv 1706.03762, section 3.2.1). FLOPs per
/// pair of query and key, d features: forward two products of 2 d each, the scaling 1 and the
/// softmax 5 as that operator has it; backward four products (dV = P' dO, dP = dO V', dQ = dS K,
/// dK = dS' Q), the softmax 4 and the scaling 1. An algorithm that does not keep P computes it
/// again. Bytes of the one that keeps no matrix of pairs in memory (Dao et al. 2022, arXiv
/// 2205.14135): forward reads Q, K and V and writes O; backward reads those and dO and writes dQ,
/// dK and dV. Masked pairs are counted, as padding, which many kernels compute.
Work own_work(const Layer& layer, Pass pass, DType dtype) {
  const AttentionShape s = attention_shape(layer);
  const auto operands = static_cast<double>(input_elements(layer)),
             result = static_cast<double>(output_elements(layer)),
             d = static_cast<double>(s.head_features), size = bytes_of(dtype);
  const bool forward = pass == Pass::forward;
  const double per_pair =
      static_cast<double>(s.batch * s.heads) * (forward ? 4 * d + 6 : 8 * d + 5);
  const std::int64_t pairs = s.query_length * s.key_length;
  return {.flops = per_pair * static_cast<double>(pairs),
          .bytes_read = size * (forward ? operands : operands + result),
          .bytes_written = size * (forward ? result : operands),
          .padding_flops = per_pair * static_cast<double>(pairs - s.visible_pairs())};
}

/// Three sequences, Q, K and V, or one that holds them side by side. The heads share the features.
void fit(LayerDraft& draft, std::span<const ItemShape> inputs) {
  if (inputs.size() != 1 && inputs.size() != 3) {
    throw UsageError(
        "expected one input of queries, keys and values side by side, or three, as input = "
        "[\"Q\", \"K\", \"V\"]");
  }
  const ItemShape::Sequence queries = inputs[0].sequence(), keys = inputs.back().sequence();
  if (inputs.size() == 3 && (inputs[1] != inputs[2] || keys.features != queries.features)) {
    throw UsageError(fmt::format(
        "queries, keys and values of {}, {} and {}: expected equal features, and as many keys as "
        "values",
        inputs[0].text(), inputs[1].text(), inputs[2].text()));
  }
  const auto heads = draft["heads"];
  if (!heads || *heads < 1) return;  // the missing or impossible parameter is told by others
  const std::int64_t shares = *heads * (inputs.size() == 1 ? 3 : 1);
  if (queries.features % shares != 0) {
    throw UsageError(fmt::format(
        "{} features do not divide into {} heads", queries.features,
        inputs.size() == 1 ? fmt::format("Q, K and V of {}", *heads) : std::to_string(*heads)));
  }
  draft.follows("query_length", queries.positions);
  draft.follows("key_length", keys.positions);
  draft.follows("head_features", queries.features / shares);
}

ItemShape output_shape(const Layer& layer, std::span<const ItemShape> /*inputs*/) {
  const AttentionShape s = attention_shape(layer);
  return {s.query_length, s.heads * s.head_features};
}

// So that the elements of all operands can be counted in 64 bits.
constexpr ParameterInfo parameters[] = {
    {"batch", 1, 1 << 20, std::nullopt, {}, "items"},
    {"heads", 1, 1 << 10, std::nullopt, {}, "heads, each with queries, keys and values of its own"},
    {"query_length", 1, 1 << 20, std::nullopt, {}, "positions that ask"},
    {"key_length", 1, 1 << 20, std::nullopt, {}, "positions that are asked"},
    {"head_features", 1, 1 << 10, std::nullopt, {}, "features of each head"},
    {"causal", 0, 1, 0, {}, "whether a position sees none that come after it"},
};

}  // namespace

constinit const Operator attention_operator{
    .name = "attention",
    .family = Family::attention,
    .parameters = parameters,
    .passes = forward_and_backward,
    .check = &check,
    .work = &work_of_passes<own_work>,
    .parameter_tensors = &no_parameter_tensors,
    .input_elements = &input_elements,
    .output_elements = &output_elements,
    .fit = &fit,
    .output_shape = &output_shape,
};

}  // namespace forecost
