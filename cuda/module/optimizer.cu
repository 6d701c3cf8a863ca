#include "core/optimizer_rules.hpp"
#include "cuda/module/kernels.cuh"

namespace forecost::cuda {

template <class Rule, class T>
struct OptimizerRule {
  UpdateFactors factors;
  T* parameters;
  const T* gradient;
  float *first, *second;

  template <int n>
  __device__ void run(std::int64_t i) const {
    Floats<n> w = load<n>(parameters + i), a{}, b{};
    const Floats<n> g = load<n>(gradient + i);
    if constexpr (Rule::states > 0) a = load<n>(first + i);
    if constexpr (Rule::states > 1) b = load<n>(second + i);
#pragma unroll
    for (int k = 0; k < n; ++k) Rule::apply(factors, w[k], g[k], &a[k], &b[k]);
    store<n>(parameters + i, w);
    if constexpr (Rule::states > 0) store<n>(first + i, a);
    if constexpr (Rule::states > 1) store<n>(second + i, b);
  }
};

namespace {

/// Numbered as Optimizer in data, of which the module knows nothing.
template <class Work>
auto with_rule(std::int32_t optimizer, Work work) {
  using namespace update_rules;
  switch (optimizer) {
    case 1:
      return work.template operator()<Sgd>();
    case 2:
      return work.template operator()<Momentum>();
    case 3:
      return work.template operator()<Adagrad>();
    case 4:
      return work.template operator()<Adadelta>();
    case 5:
      return work.template operator()<Rmsprop>();
    case 6:
      return work.template operator()<Adam>();
    case 7:
      return work.template operator()<AdamW>();
    default:
      throw Failure(Code::unsupported, "there is no such optimizer");
  }
}

/// A sequence begins at the first step. (A captured graph repeats the steps that it was captured
/// with, which costs the same.)
template <class Rule, class T>
struct OptimizerPlan : Plan {
  explicit OptimizerPlan(std::int64_t count_) : count(count_) { name_own(info, "optimizer"); }
  void prepare(Context&, void* const*, void*) override { step = 0; }
  void enqueue(Context& context, void* const* t, void*) override {
    const OptimizerRule<Rule, T> rule{UpdateFactors({}, ++step), static_cast<T*>(t[0]),
                                      static_cast<const T*>(t[1]), static_cast<float*>(t[2]),
                                      static_cast<float*>(t[3])};
    map<T>(context, rule, count,
           aligned({rule.parameters, rule.gradient, Rule::states > 0 ? rule.first : nullptr,
                    Rule::states > 1 ? rule.second : nullptr}));
  }
  std::int64_t count, step = 0;
};

}  // namespace

std::unique_ptr<Plan> plan_optimizer(Context&, const Primitive& primitive) {
  const OptimizerStep& p = primitive.optimizer;
  return with_element(p.element, [&]<class T>() {
    return with_rule(p.optimizer, [&]<class Rule>() -> std::unique_ptr<Plan> {
      return std::make_unique<OptimizerPlan<Rule, T>>(p.count);
    });
  });
}

}  // namespace forecost::cuda
