#pragma once

#include <cstdint>

#include "data/layer.hpp"

namespace forecost {

/// The parameters of an `allreduce` layer: `elements` numbers of each of `ranks` ranks, one device
/// each, are summed, and every rank gets the sums. The ranks lie on `nodes` nodes. `batch`, which
/// every operator has, is 1.
struct AllreduceShape {
  std::int64_t batch, elements, ranks, nodes;
};
/// The layer must be an allreduce.
AllreduceShape allreduce_shape(const Layer& layer);

extern const Operator allreduce_operator;

}  // namespace forecost
