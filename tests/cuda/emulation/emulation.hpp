#pragma once

#include <vector_types.h>

#include <cstddef>
#include <string>
#include <vector>

// Runs the module's kernels on the CPU: the very .cu files, compiled by the host compiler with
// shim/ before the toolkit's headers. A block's threads are fibres, so that barriers and shuffles
// mean what they mean on a GPU; blocks run one after another.

namespace forecost::emulation {

/// Runs the kernel whose symbol is `mangled_name` (the same with every compiler) over a grid.
/// `arguments` point to its arguments, as cudaLaunchKernel has them. False where no kernel has that
/// name. Throws std::logic_error for what would hang or be undefined on a device: a barrier that
/// not all threads reach, a shuffle with lanes missing, dynamic shared memory, which we do not use.
bool emulate(const char* mangled_name, dim3 grid, dim3 block, std::size_t shared_bytes,
             void** arguments);

/// The sizes of a kernel's parameters; nothing where no kernel has that name, or takes none.
std::vector<std::size_t> parameter_bytes(const char* mangled_name);

/// Zeroes what lies between the members of a kernel's arguments, which are of those sizes. Does
/// nothing where no kernel has that name.
void clear_padding(const char* mangled_name, void** arguments);

/// The names of all kernels.
std::vector<std::string> kernel_names();

}  // namespace forecost::emulation
