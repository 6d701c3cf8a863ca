#include "cuda/module/activation.cuh"

namespace forecost::cuda {

/// In place; the channel of an element changes every `stride` of them.
template <class Rule, class T>
struct BiasForward {
  T* y;
  const T* bias;
  std::int64_t channels, stride;

  template <int n>
  __device__ void run(std::int64_t i) const {
    Floats<n> values = load<n>(y + i);
    if (stride == 1) {
      const Floats<n> shift = load<n>(bias + i % channels);
#pragma unroll
      for (int k = 0; k < n; ++k) values[k] = Rule::value(values[k] + shift[k]);
    } else {
      const float shift = to_float(bias[i / stride % channels]);
#pragma unroll
      for (int k = 0; k < n; ++k) values[k] = Rule::value(values[k] + shift);
    }
    store<n>(y + i, values);
  }
};

namespace {

template <class Rule, class T>
std::unique_ptr<Plan> plan_rule(const BiasActivation& p) {
  constexpr int width = width_of<T>();
  const std::int64_t count = p.n * p.c * p.spatial;
  if (p.direction != Direction::forward) {
    if (Rule::keeps_input) {
      throw Failure(Code::unsupported, "the gradient of gelu and silu needs what was before them");
    }
    return own_plan("bias_activation", [=](Context& context, void* const* t, void*) {
      const ActivationBackward<Rule, T> rule{static_cast<const T*>(t[0]),
                                             static_cast<const T*>(t[1]), static_cast<T*>(t[2])};
      map<T>(context, rule, count, aligned({rule.kept, rule.dy, rule.dx}));
    });
  }
  const std::int64_t stride = p.layout == Layout::nchw ? p.spatial : 1;
  const bool whole = (stride == 1 ? p.c : stride) % width == 0;
  return own_plan("bias_activation", [=, c = p.c](Context& context, void* const* t, void*) {
    if (t[1] == nullptr) {
      const ActivationForward<Rule, T> rule{static_cast<const T*>(t[0]), static_cast<T*>(t[0])};
      return map<T>(context, rule, count, aligned({rule.y}));
    }
    const BiasForward<Rule, T> rule{static_cast<T*>(t[0]), static_cast<const T*>(t[1]), c, stride};
    map<T>(context, rule, count, whole && aligned({rule.y, rule.bias}));
  });
}

}  // namespace

std::unique_ptr<Plan> plan_bias_activation(Context&, const Primitive& primitive) {
  const BiasActivation& p = primitive.bias_activation;
  return with_element(p.element, [&]<class T>() {
    return with_activation(p.function, [&]<class Rule>() { return plan_rule<Rule, T>(p); });
  });
}

}  // namespace forecost::cuda
