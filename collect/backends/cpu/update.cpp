#include "collect/backends/cpu/update.hpp"

#include <cmath>
#include <stdexcept>

#include "collect/backends/cpu/kernels.hpp"

namespace forecost::cpu {
namespace {

/// Everything that is the same for all elements of a step.
struct Factors : UpdateRates {
  float first_correction, second_correction;  ///< what Adam's moments are divided by
  /// What AdamW's decay leaves, 1 - rate * weight_decay. (As `w - rate * weight_decay * w` in the
  /// rule it kept GCC 12 from vectorising the bf16 loop, which took 13 times as long as Adam's.)
  float kept_weight;
};

template <class T>
struct Range {
  T* parameters;
  const T* gradient;
  float* first;
  float* second;
  std::size_t n;
};

// One rule per optimizer, for one element: w its value, g its gradient, a and b its state; returns
// the new value.
struct Sgd {
  static float apply(const Factors& f, float w, float g, float*, float*) { return w - f.rate * g; }
};
struct Momentum {
  static float apply(const Factors& f, float w, float g, float* a, float*) {
    *a = f.momentum * *a + g;
    return w - f.rate * *a;
  }
};
struct Adagrad {
  static float apply(const Factors& f, float w, float g, float* a, float*) {
    *a += g * g;
    return w - f.rate * g / (std::sqrt(*a) + f.epsilon);
  }
};
struct Adadelta {
  static float apply(const Factors& f, float w, float g, float* a, float* b) {
    *a = f.decay * *a + (1 - f.decay) * g * g;
    const float change = std::sqrt(*b + f.epsilon) / std::sqrt(*a + f.epsilon) * g;
    *b = f.decay * *b + (1 - f.decay) * change * change;
    return w - f.rate * change;
  }
};
struct Rmsprop {
  static float apply(const Factors& f, float w, float g, float* a, float*) {
    *a = f.decay * *a + (1 - f.decay) * g * g;
    return w - f.rate * g / (std::sqrt(*a) + f.epsilon);
  }
};
struct Adam {
  static float apply(const Factors& f, float w, float g, float* a, float* b) {
    *a = f.beta1 * *a + (1 - f.beta1) * g;
    *b = f.beta2 * *b + (1 - f.beta2) * g * g;
    return w -
           f.rate * (*a / f.first_correction) / (std::sqrt(*b / f.second_correction) + f.epsilon);
  }
};
struct AdamW {
  static float apply(const Factors& f, float w, float g, float* a, float* b) {
    return Adam::apply(f, f.kept_weight * w, g, a, b);
  }
};

// (Built with -fno-math-errno, without which a square root is not vectorised.)
template <class Rule, class T>
FORECOST_CLONES void apply_rule(const Range<T>& range, const Factors& factors) {
  T* __restrict__ w = range.parameters;
  const T* __restrict__ g = range.gradient;
  float* __restrict__ a = range.first;
  float* __restrict__ b = range.second;
#pragma omp simd
  for (std::size_t i = 0; i < range.n; ++i) {
    store(w[i], Rule::apply(factors, load(w[i]), load(g[i]), a + i, b + i));
  }
}

template <class T>
using RuleLoop = void (*)(const Range<T>&, const Factors&);

template <class T>
RuleLoop<T> loop_of(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::sgd:
      return &apply_rule<Sgd, T>;
    case Optimizer::momentum:
      return &apply_rule<Momentum, T>;
    case Optimizer::adagrad:
      return &apply_rule<Adagrad, T>;
    case Optimizer::adadelta:
      return &apply_rule<Adadelta, T>;
    case Optimizer::rmsprop:
      return &apply_rule<Rmsprop, T>;
    case Optimizer::adam:
      return &apply_rule<Adam, T>;
    case Optimizer::adamw:
      return &apply_rule<AdamW, T>;
    case Optimizer::none:
      break;
  }
  throw std::logic_error("an update needs an optimizer");
}

template <class T>
void run(Optimizer optimizer, const ParameterTensor& tensor, const Factors& factors) {
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
  const auto correction = [&](float beta) {
    return static_cast<float>(1 - std::pow(static_cast<double>(beta), static_cast<double>(step)));
  };
  const Factors factors{rates, correction(rates.beta1), correction(rates.beta2),
                        1 - rates.rate * rates.weight_decay};
  with_type(dtype, [&]<class T>() { run<T>(optimizer, tensor, factors); });
}

}  // namespace forecost::cpu
