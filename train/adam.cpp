#include "train/adam.hpp"

#include <cmath>

namespace forecost {

namespace {

struct Factors {
  float beta1, beta2, take1, take2, rate, root_scale, epsilon, keep, l2;
};

// GCC makes one copy for AVX-512 and one for the build's own target, and takes what the CPU has.
#if defined(__x86_64__)
__attribute__((target_clones("default", "arch=x86-64-v4")))
#endif
void apply(const Factors f, std::size_t n, const float* __restrict gradient,
           float* __restrict parameters, float* __restrict first, float* __restrict second) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = gradient[i] + f.l2 * parameters[i];
    const float m = f.beta1 * first[i] + f.take1 * g;
    const float v = f.beta2 * second[i] + f.take2 * g * g;
    first[i] = m;
    second[i] = v;
    parameters[i] = f.keep * parameters[i] - f.rate * m / (std::sqrt(v) * f.root_scale + f.epsilon);
  }
}

}  // namespace

void adam_step(const AdamStep& s, std::size_t n, const float* gradient, float* parameters,
               float* first_moment, float* second_moment) {
  constexpr double beta1 = 0.9, beta2 = 0.999;  // as in the paper
  const auto t = static_cast<double>(s.step);
  const auto f = [](double value) { return static_cast<float>(value); };
  apply({.beta1 = f(beta1),
         .beta2 = f(beta2),
         .take1 = f(1 - beta1),
         .take2 = f(1 - beta2),
         .rate = f(s.learning_rate / (1 - std::pow(beta1, t))),
         .root_scale = f(1 / std::sqrt(1 - std::pow(beta2, t))),
         .epsilon = f(s.epsilon),
         .keep = f(1 - s.learning_rate * s.weight_decay),
         .l2 = f(s.l2)},
        n, gradient, parameters, first_moment, second_moment);
}

}  // namespace forecost
