#pragma once

#include "core/elementwise_rules.hpp"
#include "cuda/module/kernels.cuh"

namespace forecost::cuda {

/// Calls work.operator()<Rule>() with the rule of a function.
template <class Work>
auto with_activation(Function function, Work work) {
  using namespace activation_rules;
  switch (function) {
    case Function::relu:
      return work.template operator()<Relu>();
    case Function::tanh:
      return work.template operator()<Tanh>();
    case Function::sigmoid:
      return work.template operator()<Sigmoid>();
    case Function::gelu:
      return work.template operator()<Gelu>();
    case Function::silu:
      return work.template operator()<Silu>();
    case Function::none:
      return work.template operator()<Identity>();
  }
  throw Failure(Code::unsupported, "there is no such activation");
}

template <class Rule, class T>
struct ActivationForward {
  const T* x;
  T* y;

  template <int n>
  __device__ void run(std::int64_t i) const {
    Floats<n> values = load<n>(x + i);
#pragma unroll
    for (int k = 0; k < n; ++k) values[k] = Rule::value(values[k]);
    store<n>(y + i, values);
  }
};

/// `kept` is x or y, see core/elementwise_rules.hpp.
template <class Rule, class T>
struct ActivationBackward {
  const T *kept, *dy;
  T* dx;

  template <int n>
  __device__ void run(std::int64_t i) const {
    Floats<n> values = load<n>(dy + i);
    const Floats<n> of = load<n>(kept + i);
#pragma unroll
    for (int k = 0; k < n; ++k) values[k] = Rule::gradient(values[k], of[k]);
    store<n>(dx + i, values);
  }
};

}  // namespace forecost::cuda
