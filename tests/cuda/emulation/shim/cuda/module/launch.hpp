#pragma once

// In place of the module's launch.hpp: a launch enters its kernel into the table, before main, and
// runs it at once.

#include <cuda_runtime.h>

#include <type_traits>
#include <utility>

#include "cuda/module/context.hpp"
#include "tests/cuda/emulation/kernel_table.hpp"

namespace forecost::emulation {

void run_kernel(const void* kernel, dim3 grid, dim3 block, void** arguments);

template <auto kernel>
struct Kernel;
template <class... Parameters, void (*kernel)(Parameters...)>
struct Kernel<kernel> {
  static void invoke(void** arguments) {
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      kernel(*static_cast<Parameters*>(arguments[i])...);
    }
    (std::index_sequence_for<Parameters...>());
  }
  static void clear_padding(void** arguments) {
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      (__builtin_clear_padding(static_cast<std::remove_const_t<Parameters>*>(arguments[i])), ...);
    }
    (std::index_sequence_for<Parameters...>());
  }
  static const void* address() { return reinterpret_cast<const void*>(kernel); }
  static const bool entered;

  static void launch(dim3 grid, dim3 block, Parameters... arguments) {
    (void)entered;
    void* pointers[] = {static_cast<void*>(&arguments)..., nullptr};
    run_kernel(address(), grid, block, pointers);
  }
};
template <class... Parameters, void (*kernel)(Parameters...)>
const bool Kernel<kernel>::entered = add_kernel(address(), &invoke, &clear_padding,
                                                {sizeof(Parameters)...});

}  // namespace forecost::emulation

namespace forecost::cuda {

template <auto kernel, class... Arguments>
void launch(dim3 grid, dim3 block, cudaStream_t, const Arguments&... arguments) {
  forecost::emulation::Kernel<kernel>::launch(grid, block, arguments...);
}

}  // namespace forecost::cuda
