#pragma once

#include <cstddef>
#include <vector>

namespace forecost::emulation {

/// Calls a kernel, once for a thread, with the arguments of a launch.
using Invoke = void (*)(void** arguments);

/// Zeroes what lies between the members of arguments: nobody set it.
using ClearPadding = void (*)(void** arguments);

/// Enters the kernel at this address, which has parameters of these sizes.
bool add_kernel(const void* kernel, Invoke invoke, ClearPadding clear_padding,
                std::vector<std::size_t> parameter_bytes);

}  // namespace forecost::emulation
