#pragma once

#include <cstdint>

#include "data/layer.hpp"

namespace forecost {

/// The parameters of an `embedding` layer: each of batch x length ids (8 bytes) becomes its row of
/// a table of entries x features. The gradient of the table is dense, as frameworks have it unless
/// told otherwise.
struct EmbeddingShape {
  std::int64_t batch, length, entries, features;
};
/// The layer must be an embedding.
EmbeddingShape embedding_shape(const Layer& layer);

extern const Operator embedding_operator;

}  // namespace forecost
