#include "data/operators/transfer.hpp"

#include "data/operators/pointwise.hpp"

namespace forecost {

TransferShape transfer_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1], static_cast<TransferDirection>(v[2]), v[3] != 0};
}

namespace {

void check(const Layer& layer) {
  const TransferShape s = transfer_shape(layer);
  if (s.direction == TransferDirection::device_to_device && !s.pinned) {
    throw UsageError(
        "transfer: pinned=0 with direction=device_to_device, which has no host memory; expected "
        "pinned at its default");
  }
}

/// A copy: every byte is read once and written once.
Work own_work(const Layer& layer, Pass /*pass*/, DType dtype) {
  const double bytes = bytes_of(dtype) * static_cast<double>(pointwise_elements(layer));
  const bool within = transfer_shape(layer).direction == TransferDirection::device_to_device;
  return {.bytes_read = bytes,
          .bytes_written = bytes,
          .traffic = within ? Traffic::memory : Traffic::host_link};
}

constexpr ParameterInfo parameters[] = {
    batch_parameter,
    features_parameter,
    {"direction", 0, 2, std::nullopt, EnumNames<TransferDirection>::names, "from where to where"},
    {"pinned", 0, 1, 1, {}, "whether the host's memory is locked into place"},
};

constexpr Pass passes[] = {Pass::forward};

}  // namespace

constinit const Operator transfer_operator = [] {
  Operator op = pointwise_operator<own_work>("transfer", parameters);
  op.passes = passes;
  op.check = &check;
  return op;
}();

}  // namespace forecost
