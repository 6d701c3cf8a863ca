#include "collect/backends/cpu/update.hpp"

#include <stdexcept>

#include "collect/backends/cpu/kernels.hpp"

namespace forecost::cpu {
namespace {

template <class T>
struct Range {
  T* parameters;
  const T* gradient;
  float* first;
  float* second;
  std::size_t n;
};

// (Built with -fno-math-errno, without which a square root is not vectorised.)
template <class Rule, class T>
FORECOST_CLONES void apply_rule(const Range<T>& range, const UpdateFactors& factors) {
  T* __restrict__ w = range.parameters;
  const T* __restrict__ g = range.gradient;
  float* __restrict__ a = range.first;
  float* __restrict__ b = range.second;
#pragma omp simd
  for (std::size_t i = 0; i < range.n; ++i) {
    float value = load(w[i]);
    Rule::apply(factors, value, load(g[i]), a + i, b + i);
    store(w[i], value);
  }
}

template <class T>
using RuleLoop = void (*)(const Range<T>&, const UpdateFactors&);

template <class T>
RuleLoop<T> loop_of(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::sgd:
      return &apply_rule<update_rules::Sgd, T>;
    case Optimizer::momentum:
      return &apply_rule<update_rules::Momentum, T>;
    case Optimizer::adagrad:
      return &apply_rule<update_rules::Adagrad, T>;
    case Optimizer::adadelta:
      return &apply_rule<update_rules::Adadelta, T>;
    case Optimizer::rmsprop:
      return &apply_rule<update_rules::Rmsprop, T>;
    case Optimizer::adam:
      return &apply_rule<update_rules::Adam, T>;
    case Optimizer::adamw:
      return &apply_rule<update_rules::AdamW, T>;
    case Optimizer::none:
      break;
  }
  throw std::logic_error("an update needs an optimizer");
}

template <class T>
void run(Optimizer optimizer, const ParameterTensor& tensor, const UpdateFactors& factors) {
  const RuleLoop<T> loop = loop_of<T>(optimizer);
  split(tensor.elements, [&](std::size_t, std::size_t begin, std::size_t end) {
    loop(
        {static_cast<T*>(tensor.parameters) + begin, static_cast<const T*>(tensor.gradient) + begin,
         tensor.first == nullptr ? nullptr : tensor.first + begin,
         tensor.second == nullptr ? nullptr : tensor.second + begin, end - begin},
        factors);
  });
}

}  // namespace

void update(Optimizer optimizer, DType dtype, const ParameterTensor& tensor, std::int64_t step,
            const UpdateRates& rates) {
  const UpdateFactors factors(rates, step);
  with_type(dtype, [&]<class T>() { run<T>(optimizer, tensor, factors); });
}

}  // namespace forecost::cpu
