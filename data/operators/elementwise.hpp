#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "data/layer.hpp"

namespace forecost {

/// What an `elementwise` layer computes of two numbers.
enum class ElementwiseOperation : std::uint8_t { add, subtract, multiply, divide, power };
template <>
struct EnumNames<ElementwiseOperation> {
  static constexpr std::string_view kind = "operation";
  static constexpr std::array<std::string_view, 5> names{"add", "subtract", "multiply", "divide",
                                                         "power"};
};

/// Where the second number comes from: a tensor of the first one's shape, or one number for all
/// elements.
enum class ElementwiseOperand : std::uint8_t { tensor, scalar };
template <>
struct EnumNames<ElementwiseOperand> {
  static constexpr std::string_view kind = "operand";
  static constexpr std::array<std::string_view, 2> names{"tensor", "scalar"};
};

/// What a scalar operand is where one is measured: no number that libraries have a shortcut for, as
/// they have for the power 2.
inline constexpr double elementwise_scalar = 1.75;

/// The parameters of an `elementwise` layer over batch x features elements.
struct ElementwiseShape {
  std::int64_t batch, features;
  ElementwiseOperation operation;
  ElementwiseOperand operand;
};
/// The layer must be an elementwise one.
ElementwiseShape elementwise_shape(const Layer& layer);

extern const Operator elementwise_operator;

}  // namespace forecost
