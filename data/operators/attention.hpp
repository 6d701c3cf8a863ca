#pragma once

#include <cstdint>

#include "data/layer.hpp"

namespace forecost {

/// The parameters of an `attention` layer: softmax(Q K' / sqrt head_features) V for each of batch x
/// heads; Q of query_length x head_features, K and V of key_length x head_features. There are no
/// parameters: projections are dense layers. Where it is causal, the queries are the last positions
/// of the keys' sequence, and each sees the keys up to its own position.
struct AttentionShape {
  std::int64_t batch, heads, query_length, key_length, head_features;
  bool causal;

  /// Pairs of a query and a key that it sees, of one head of one item.
  std::int64_t visible_pairs() const {
    const std::int64_t all = query_length * key_length;
    return causal ? all - query_length * (query_length - 1) / 2 : all;
  }
};
/// The layer must be an attention.
AttentionShape attention_shape(const Layer& layer);

extern const Operator attention_operator;

}  // namespace forecost
