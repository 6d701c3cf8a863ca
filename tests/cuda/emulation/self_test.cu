#include "tests/cuda/emulation/self_test.hpp"

#include "cuda/module/launch.hpp"

namespace forecost::emulation {

__global__ void sum_by_barriers_kernel(const int* start, int* sums) {
  __shared__ int numbers[96];
  const int i = static_cast<int>(threadIdx.x);
  numbers[i] = __shfl_xor_sync(0xFFFFFFFFU, i, 1) + *start;
  for (int half = 48; half >= 3; half /= 2) {
    __syncthreads();
    if (i < half) numbers[i] += numbers[i + half];
  }
  __syncthreads();
  if (i == 0)
    sums[blockIdx.x] = numbers[0] + numbers[1] + numbers[2] + static_cast<int>(blockIdx.x);
}

__global__ void wait_for_nobody_kernel() {
  if (threadIdx.x < 32) __syncwarp();
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}

__global__ void shuffle_with_few_kernel() {
  if (threadIdx.x < 8) (void)__shfl_xor_sync(0xFFFFFFFFU, 1, 1);
}

void sum_by_barriers(unsigned blocks, const int* start, int* sums) {
  cuda::launch<&sum_by_barriers_kernel>(blocks, 96, nullptr, start, sums);
}
void wait_for_nobody() { cuda::launch<&wait_for_nobody_kernel>(1, 64, nullptr); }
void shuffle_with_few() { cuda::launch<&shuffle_with_few_kernel>(1, 32, nullptr); }

}  // namespace forecost::emulation
