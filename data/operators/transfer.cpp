#include "data/operators/transfer.hpp"

#include "data/layer_draft.hpp"
#include "data/operators/passes.hpp"

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

std::int64_t elements(const Layer& layer) {
  const TransferShape s = transfer_shape(layer);
  return s.batch * s.features;
}

/// A copy: every byte is read once and written once.
Work own_work(const Layer& layer, Pass /*pass*/, DType dtype) {
  const double bytes = bytes_of(dtype) * static_cast<double>(elements(layer));
  const bool within = transfer_shape(layer).direction == TransferDirection::device_to_device;
  return {.bytes_read = bytes,
          .bytes_written = bytes,
          .traffic = within ? Traffic::memory : Traffic::host_link};
}

constexpr ParameterInfo parameters[] = {
    {"batch", 1, 1 << 20, std::nullopt, {}, "items"},
    {"features", 1, std::int64_t{1} << 32, std::nullopt, {}, "elements of each item"},
    {"direction", 0, 2, std::nullopt, EnumNames<TransferDirection>::names, "from where to where"},
    {"pinned", 0, 1, 1, {}, "whether the host's memory is locked into place"},
};

constexpr Pass passes[] = {Pass::forward};

}  // namespace

constinit const Operator transfer_operator{
    .name = "transfer",
    .family = Family::memory_bound,
    .parameters = parameters,
    .passes = passes,
    .check = &check,
    .work = &work_of_passes<own_work>,
    .parameter_tensors = &no_parameter_tensors,
    .input_elements = &elements,
    .output_elements = &elements,
    .fit = &fit_features,
};

}  // namespace forecost
