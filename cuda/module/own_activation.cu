#include "cuda/module/activation.cuh"

namespace forecost::cuda {
namespace {

template <class Rule, class T>
std::unique_ptr<Plan> plan_rule(const Activation& p) {
  if (p.direction == Direction::forward) {
    return own_plan("activation", [count = p.count](Context& context, void* const* t, void*) {
      const ActivationForward<Rule, T> rule{static_cast<const T*>(t[0]), static_cast<T*>(t[1])};
      map<T>(context, rule, count, aligned({rule.x, rule.y}));
    });
  }
  return own_plan("activation", [count = p.count](Context& context, void* const* t, void*) {
    const ActivationBackward<Rule, T> rule{static_cast<const T*>(t[Rule::keeps_input ? 0 : 1]),
                                           static_cast<const T*>(t[2]), static_cast<T*>(t[3])};
    map<T>(context, rule, count, aligned({rule.kept, rule.dy, rule.dx}));
  });
}

}  // namespace

std::unique_ptr<Plan> plan_own_activation(Context&, const Primitive& primitive) {
  const Activation& p = primitive.activation;
  return with_element(p.element, [&]<class T>() {
    return with_activation(p.function, [&]<class Rule>() { return plan_rule<Rule, T>(p); });
  });
}

}  // namespace forecost::cuda
