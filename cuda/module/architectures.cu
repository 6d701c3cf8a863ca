#include "cuda/module/devices.hpp"

namespace forecost::cuda {

std::int32_t lowest_capability() {
  // nvcc's, of what this file is compiled for, in rising order: 750, 800, ...
  constexpr std::int32_t architectures[] = {__CUDA_ARCH_LIST__};
  return architectures[0] / 10;
}

}  // namespace forecost::cuda
