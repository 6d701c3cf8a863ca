#pragma once

#include <string>

#include "data/device.hpp"
#include "data/measurement.hpp"

namespace forecost {

/// A device of no real product for tests of what is stored: its name is not ASCII.
inline Device card(const std::string& uuid) {
  Device device;
  device.name = "Card µ";
  device.vendor = "V";
  device.kind = "gpu";
  device.device_class = "card";
  device.uuid = uuid;
  device.host = "node1";
  device.set(Attribute::clock_hz, 1.5e9);
  return device;
}

/// A task that has no field at its default.
inline Task unusual_task() {
  return {.layer = Layer::parse("conv2d batch=1 in_channels=2 out_channels=2 in_h=5 in_w=5 "
                                "kernel_h=3 kernel_w=3 activation=tanh"),
          .pass = Pass::update,
          .dtype = DType::bf16,
          .optimizer = Optimizer::adamw,
          .cache = CacheState::hot};
}

}  // namespace forecost
