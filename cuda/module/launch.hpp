#pragma once

#include <cuda_runtime.h>

#include "cuda/module/context.hpp"

namespace forecost::cuda {

/// Of one kernel, which is a template argument so that a test's emulation, which has a file of this
/// name in place of this one, knows what arguments the kernel of a name takes.
template <auto kernel>
struct Launcher;
template <class... Parameters, void (*kernel)(Parameters...)>
struct Launcher<kernel> {
  static void launch(dim3 grid, dim3 block, cudaStream_t stream, Parameters... arguments) {
    void* pointers[] = {static_cast<void*>(&arguments)..., nullptr};
    check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers, 0, stream),
          "kernel launch");
  }
};

/// Puts a kernel on the stream: what kernel<<<grid, block, 0, stream>>>(arguments...) does, as a
/// call that a host compiler takes too. Throws Failure.
///
/// A kernel, and the types that its template is over, have names of their own and lie in no
/// anonymous namespace: then its symbol is the same with every compiler.
template <auto kernel, class... Arguments>
void launch(dim3 grid, dim3 block, cudaStream_t stream, const Arguments&... arguments) {
  Launcher<kernel>::launch(grid, block, stream, arguments...);
}

}  // namespace forecost::cuda
