#include <type_traits>

#include "core/elementwise_rules.hpp"
#include "cuda/module/kernels.cuh"

namespace forecost::cuda {

template <class Rule, class T, bool scalar_b>
struct ElementwiseForward {
  const T *a, *b;
  T* y;
  float scalar;

  template <int n>
  __device__ void run(std::int64_t i) const {
    Floats<n> values = load<n>(a + i);
    Floats<n> others = all_of<n>(scalar);
    if constexpr (!scalar_b) others = load<n>(b + i);
#pragma unroll
    for (int k = 0; k < n; ++k) values[k] = Rule::value(values[k], others[k]);
    store<n>(y + i, values);
  }
};

template <class Rule, class T, bool scalar_b>
struct ElementwiseBackward {
  const T *a, *b, *y, *dy;
  T *da, *db;
  float scalar;

  // What the derivatives are written in.
  static constexpr bool power = std::is_same_v<Rule, elementwise_rules::Power>,
                        multiply = std::is_same_v<Rule, elementwise_rules::Multiply>,
                        divide = std::is_same_v<Rule, elementwise_rules::Divide>,
                        reads_a = power || (multiply && !scalar_b),
                        reads_b = (power || multiply || divide) && !scalar_b,
                        reads_y = (power || divide) && !scalar_b;

  template <int n>
  __device__ void run(std::int64_t i) const {
    Floats<n> first = load<n>(dy + i), second{};
    Floats<n> va{}, vb = all_of<n>(scalar), vy{};
    if constexpr (reads_a) va = load<n>(a + i);
    if constexpr (reads_b) vb = load<n>(b + i);
    if constexpr (reads_y) vy = load<n>(y + i);
#pragma unroll
    for (int k = 0; k < n; ++k) Rule::gradients(first[k], va[k], vb[k], vy[k], first[k], second[k]);
    store<n>(da + i, first);
    if constexpr (!scalar_b) store<n>(db + i, second);
  }
};

namespace {

template <class Work>
auto with_rule(Operation operation, Work work) {
  using namespace elementwise_rules;
  switch (operation) {
    case Operation::add:
      return work.template operator()<Add>();
    case Operation::subtract:
      return work.template operator()<Subtract>();
    case Operation::multiply:
      return work.template operator()<Multiply>();
    case Operation::divide:
      return work.template operator()<Divide>();
    case Operation::power:
      return work.template operator()<Power>();
  }
  throw Failure(Code::unsupported, "elementwise has no such operation");
}

template <class Rule, class T, bool scalar_b>
std::unique_ptr<Plan> plan_rule(const Elementwise& p) {
  const auto scalar = static_cast<float>(p.scalar);
  if (p.direction == Direction::forward) {
    return own_plan("elementwise", [=](Context& context, void* const* t, void*) {
      const ElementwiseForward<Rule, T, scalar_b> rule{
          static_cast<const T*>(t[0]), static_cast<const T*>(t[1]), static_cast<T*>(t[2]), scalar};
      map<T>(context, rule, p.count, aligned({rule.a, scalar_b ? nullptr : rule.b, rule.y}));
    });
  }
  return own_plan("elementwise", [=](Context& context, void* const* t, void*) {
    const ElementwiseBackward<Rule, T, scalar_b> rule{static_cast<const T*>(t[0]),
                                                      static_cast<const T*>(t[1]),
                                                      static_cast<const T*>(t[2]),
                                                      static_cast<const T*>(t[3]),
                                                      static_cast<T*>(t[4]),
                                                      static_cast<T*>(t[5]),
                                                      scalar};
    map<T>(
        context, rule, p.count,
        aligned({rule.reads_a ? rule.a : nullptr, rule.reads_b ? rule.b : nullptr,
                 rule.reads_y ? rule.y : nullptr, rule.dy, rule.da, scalar_b ? nullptr : rule.db}));
  });
}

}  // namespace

std::unique_ptr<Plan> plan_elementwise(Context&, const Primitive& primitive) {
  const Elementwise& p = primitive.elementwise;
  return with_element(p.element, [&]<class T>() {
    return with_rule(p.operation, [&]<class Rule>() {
      return p.b_is_scalar != 0 ? plan_rule<Rule, T, true>(p) : plan_rule<Rule, T, false>(p);
    });
  });
}

}  // namespace forecost::cuda
