#pragma once

#include <cstdint>

#include "cuda/module_interface.hpp"

namespace forecost::cuda {

/// At least 1. Throws Failure: no_driver, no_device.
std::int32_t count_devices();
/// Throws Failure.
DeviceFacts describe_device(int index);
/// Never fails: 0 for what is not there.
Versions versions();
/// The lowest compute capability that the module has code for, 75 for 7.5.
std::int32_t lowest_capability();

}  // namespace forecost::cuda
