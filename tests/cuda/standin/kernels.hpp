#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "tests/cuda/standin/work.hpp"

// Kernels of the module: registered by name when it is loaded, launched by the address of their
// host function, computed by tests/cuda/emulation, which holds the same kernels for the CPU.

namespace forecost::standin {

void register_kernel(const void* host_function, const char* device_name);
void forget_kernels();
/// nullptr where it was never registered.
const char* kernel_name(const void* host_function);

/// A launch, its arguments copied. Pointers among them are operands, up to the end of what they
/// point into: that is what is known of them.
Work kernel_work(const std::string& device_name, dim3 grid, dim3 block, std::size_t shared_bytes,
                 void** arguments);

}  // namespace forecost::standin
