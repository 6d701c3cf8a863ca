#include "data/operators/allreduce.hpp"

#include <fmt/format.h>

#include "data/layer_draft.hpp"
#include "data/operators/passes.hpp"

namespace forecost {

AllreduceShape allreduce_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1], v[2], v[3]};
}

namespace {

void check(const Layer& layer) {
  const AllreduceShape s = allreduce_shape(layer);
  if (s.ranks % s.nodes != 0) {
    throw UsageError(
        fmt::format("allreduce: ranks={} on nodes={}; expected the same number on each node",
                    s.ranks, s.nodes));
  }
}

/// Of each rank.
std::int64_t elements(const Layer& layer) { return allreduce_shape(layer).elements; }

/// What a rank does by the ring algorithm, which sends the least (Patarasuk, Yuan 2009, "Bandwidth
/// optimal all-reduce algorithms for clusters of workstations"): it adds (ranks - 1) / ranks of
/// the elements, and sends and receives twice that many, once to reduce and once to gather. Bytes
/// written are those sent, bytes read those received.
Work own_work(const Layer& layer, Pass /*pass*/, DType dtype) {
  const AllreduceShape s = allreduce_shape(layer);
  const auto ranks = static_cast<double>(s.ranks);
  const double part = static_cast<double>(s.elements) * (ranks - 1) / ranks;
  const double bytes = 2 * bytes_of(dtype) * part;
  return {
      .flops = part, .bytes_read = bytes, .bytes_written = bytes, .traffic = Traffic::interconnect};
}

void fit(LayerDraft& /*draft*/, std::span<const ItemShape> /*inputs*/) {
  throw UsageError("no layer of a network: training adds it where several devices share a batch");
}

constexpr ParameterInfo parameters[] = {
    {"batch", 1, 1, std::nullopt, {}, "1: what is summed does not depend on the batch"},
    {"elements", 1, std::int64_t{1} << 40, std::nullopt, {}, "numbers of each rank"},
    {"ranks", 2, 1 << 20, std::nullopt, {}, "devices that take part"},
    {"nodes", 1, 1 << 20, 1, {}, "nodes that they lie on"},
};

constexpr Pass passes[] = {Pass::forward};

}  // namespace

constinit const Operator allreduce_operator{
    .name = "allreduce",
    .family = Family::collective,
    .parameters = parameters,
    .passes = passes,
    .check = &check,
    .work = &work_of_passes<own_work>,
    .parameter_tensors = &no_parameter_tensors,
    .input_elements = &elements,
    .output_elements = &elements,
    .fit = &fit,
};

}  // namespace forecost
