#include "train/adam.hpp"

namespace forecost {

namespace {

// GCC makes one copy for AVX-512 and one for the build's own target, and takes what the CPU has.
#if defined(__x86_64__)
__attribute__((target_clones("default", "arch=x86-64-v4")))
#endif
void apply(const AdamFactors f, std::size_t n, const float* __restrict gradient,
           float* __restrict parameters, float* __restrict first, float* __restrict second) {
  for (std::size_t i = 0; i < n; ++i) {
    adam_rule(f, gradient[i], parameters[i], first[i], second[i]);
  }
}

}  // namespace

void adam_step(const AdamStep& step, std::size_t n, const float* gradient, float* parameters,
               float* first_moment, float* second_moment) {
  apply(AdamFactors(step), n, gradient, parameters, first_moment, second_moment);
}

}  // namespace forecost
