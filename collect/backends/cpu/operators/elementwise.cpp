#include "data/operators/elementwise.hpp"

#include <cmath>

#include "collect/backends/cpu/kernels.hpp"
#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"
#include "core/elementwise_rules.hpp"

// glibc has these for whole vectors (libmvec), which it tells the compiler only where the build
// renounces NaNs.
#if defined(__x86_64__) && defined(__GLIBC__)
#pragma omp declare simd notinbranch
extern "C" float powf(float base, float exponent) noexcept;
#pragma omp declare simd notinbranch
extern "C" float logf(float value) noexcept;
#endif

namespace forecost::cpu {
namespace {

constexpr auto scalar = static_cast<float>(elementwise_scalar);

/// Elements, all of the same number; what a rule does not read or write may be anything.
template <class T>
struct Range {
  const T *dy, *a, *b, *y;
  T *first, *second;  ///< results
};

template <class Rule, bool both, class T>
FORECOST_CLONES void gradient_loop(const Range<T>& range, std::size_t begin, std::size_t end) {
  const T *__restrict__ dy = range.dy, *__restrict__ a = range.a, *__restrict__ b = range.b,
          *__restrict__ y = range.y;
  T* __restrict__ first = range.first, * __restrict__ second = range.second;
#pragma omp simd
  for (std::size_t i = begin; i < end; ++i) {
    float da = 0, db = 0;
    Rule::gradients(load(dy[i]), load(a[i]), both ? load(b[i]) : scalar, load(y[i]), da, db);
    store(first[i], da);
    if constexpr (both) store(second[i], db);
  }
}

template <bool both, class T>
FORECOST_CLONES void power_loop(const Range<T>& range, std::size_t begin, std::size_t end) {
  const T* __restrict__ a = range.a, * __restrict__ b = range.b;
  T* __restrict__ result = range.first;
#pragma omp simd
  for (std::size_t i = begin; i < end; ++i) {
    store(result[i], std::pow(load(a[i]), both ? load(b[i]) : scalar));
  }
}

template <class T>
using Loop = void (*)(const Range<T>&, std::size_t begin, std::size_t end);

template <bool both, class T>
Loop<T> gradient_loop_of(ElementwiseOperation operation) {
  switch (operation) {
    case ElementwiseOperation::add:
      return &gradient_loop<elementwise_rules::Add, both, T>;
    case ElementwiseOperation::subtract:
      return &gradient_loop<elementwise_rules::Subtract, both, T>;
    case ElementwiseOperation::multiply:
      return &gradient_loop<elementwise_rules::Multiply, both, T>;
    case ElementwiseOperation::divide:
      return &gradient_loop<elementwise_rules::Divide, both, T>;
    case ElementwiseOperation::power:
      return &gradient_loop<elementwise_rules::Power, both, T>;
  }
  throw std::logic_error("elementwise has no such operation");
}

/// With the operands and results of `ids`, where those of the loop's that it does not use are any.
struct Ids {
  Recipe::Id dy, a, b, y, first, second;
};
template <class T>
Action loop_action(std::string_view name, Loop<T> loop, const Ids& ids, std::size_t elements) {
  return own_code(name, [=](const Bound& bound) {
    const Range<T> range{bound.data<T>(ids.dy),    bound.data<T>(ids.a),
                         bound.data<T>(ids.b),     bound.data<T>(ids.y),
                         bound.data<T>(ids.first), bound.data<T>(ids.second)};
    return [=] {
      split(elements,
            [&](std::size_t, std::size_t begin, std::size_t end) { loop(range, begin, end); });
    };
  });
}

/// The library's, which has all operations but a power of any exponent.
Action library_forward(Recipe& recipe, const ElementwiseShape& s, const dnnl::memory::desc& values,
                       Recipe::Id a, Recipe::Id b, Recipe::Id y) {
  using enum ElementwiseOperation;
  const dnnl::engine& engine = recipe.engine();
  const dnnl::primitive_attr attributes = attributes_of();
  if (s.operand == ElementwiseOperand::scalar) {  // passed by value, as alpha a + beta
    const float alpha = s.operation == multiply ? scalar
                        : s.operation == divide ? 1 / scalar
                                                : 1,
                beta = s.operation == add        ? scalar
                       : s.operation == subtract ? -scalar
                                                 : 0;
    return recipe.primitive(
        describe_eltwise(engine, attributes, dnnl::algorithm::eltwise_linear, values, alpha, beta),
        {{DNNL_ARG_SRC, a}, {DNNL_ARG_DST, y}});
  }
  const dnnl::algorithm algorithm = s.operation == add        ? dnnl::algorithm::binary_add
                                    : s.operation == subtract ? dnnl::algorithm::binary_sub
                                    : s.operation == multiply ? dnnl::algorithm::binary_mul
                                                              : dnnl::algorithm::binary_div;
  return recipe.primitive(
      describe<dnnl::binary>(engine, attributes, algorithm, values, values, values),
      {{DNNL_ARG_SRC_0, a}, {DNNL_ARG_SRC_1, b}, {DNNL_ARG_DST, y}});
}

template <class T>
void describe(Recipe& recipe, const Task& task) {
  const ElementwiseShape s = elementwise_shape(task.layer);
  const bool both = s.operand == ElementwiseOperand::tensor,
             power = s.operation == ElementwiseOperation::power,
             divide = s.operation == ElementwiseOperation::divide;
  const auto elements = static_cast<std::size_t>(s.batch * s.features);
  const dnnl::memory::desc values = plain({s.batch * s.features}, data_type_of(task.dtype));
  // Where a root, a logarithm or a division asks for it.
  constexpr Uniform positive{1, 1.5F};
  const auto first_operand = [&] {
    return recipe.input("src", values, power ? positive : Uniform{});
  };
  const auto second_operand = [&] {
    return recipe.input("other", values, power || divide ? positive : Uniform{});
  };

  if (task.pass == Pass::forward) {
    const auto a = first_operand(), b = both ? second_operand() : a,
               y = recipe.result("dst", values);
    recipe.run(power ? loop_action<T>("power", both ? &power_loop<true, T> : &power_loop<false, T>,
                                      {a, a, b, a, y, y}, elements)
                     : library_forward(recipe, s, values, a, b, y));
    return;
  }
  // As data/operators/elementwise.cpp counts them, for there is memory for these alone.
  const bool reads_a = power || (both && s.operation == ElementwiseOperation::multiply),
             reads_b = both && (power || divide || s.operation == ElementwiseOperation::multiply),
             reads_y = both && (power || divide);
  const auto dy = recipe.input("diff_dst", values);
  const auto a = reads_a ? first_operand() : dy, b = reads_b ? second_operand() : dy;
  const auto y = reads_y ? recipe.input("dst", values, positive) : dy;
  const auto da = recipe.result("diff_src", values);
  const auto db = both ? recipe.result("diff_other", values) : da;
  recipe.run(loop_action<T>(
      name_of(s.operation),
      both ? gradient_loop_of<true, T>(s.operation) : gradient_loop_of<false, T>(s.operation),
      {dy, a, b, y, da, db}, elements));
}

}  // namespace

void describe_elementwise(Recipe& recipe, const Task& task) {
  with_type(task.dtype, [&]<class T>() { describe<T>(recipe, task); });
}

}  // namespace forecost::cpu
