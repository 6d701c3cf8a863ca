#pragma once

#include "data/layer_draft.hpp"
#include "data/operators/passes.hpp"

// What operators have in common that make each element of their result of one element of each
// operand, whatever the shape.

namespace forecost {

inline constexpr ParameterInfo batch_parameter{"batch", 1, 1 << 20, std::nullopt, {}, "items"};
/// The second parameter of all of them.
inline constexpr ParameterInfo features_parameter{"features",   1,  std::int64_t{1} << 32,
                                                  std::nullopt, {}, "elements of each item"};

/// batch x features, of the result.
inline std::int64_t pointwise_elements(const Layer& layer) {
  return layer.values()[0] * layer.values()[1];
}

/// The operator with one operand and no parameters that training changes; change what differs.
template <OwnWork own>
constexpr Operator pointwise_operator(std::string_view name,
                                      std::span<const ParameterInfo> parameters) {
  return {.name = name,
          .family = Family::memory_bound,
          .parameters = parameters,
          .passes = forward_and_backward,
          .check = [](const Layer&) {},
          .work = &work_of_passes<own>,
          .parameter_tensors = &no_parameter_tensors,
          .input_elements = &pointwise_elements,
          .output_elements = &pointwise_elements,
          .fit = &fit_features};
}

}  // namespace forecost
