#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "data/layer.hpp"

namespace forecost {

/// From which memory to which a `transfer` copies.
enum class TransferDirection : std::uint8_t { host_to_device, device_to_host, device_to_device };
template <>
struct EnumNames<TransferDirection> {
  static constexpr std::string_view kind = "direction";
  static constexpr std::array<std::string_view, 3> names{"host_to_device", "device_to_host",
                                                         "device_to_device"};
};

/// The parameters of a `transfer` layer, which copies batch x features elements. `pinned`: the
/// host's memory is locked into place, so that the device can read it by itself.
struct TransferShape {
  std::int64_t batch, features;
  TransferDirection direction;
  bool pinned;
};
/// The layer must be a transfer.
TransferShape transfer_shape(const Layer& layer);

extern const Operator transfer_operator;

}  // namespace forecost
