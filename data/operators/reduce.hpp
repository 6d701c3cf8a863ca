#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "data/layer.hpp"

namespace forecost {

/// What a `reduce` layer makes one number of.
enum class ReduceOperation : std::uint8_t { sum, mean, max };
template <>
struct EnumNames<ReduceOperation> {
  static constexpr std::string_view kind = "operation";
  static constexpr std::array<std::string_view, 3> names{"sum", "mean", "max"};
};

/// Along which axis: over `features` each row becomes one number, over `rows` each feature does.
enum class ReduceAxis : std::uint8_t { features, rows };
template <>
struct EnumNames<ReduceAxis> {
  static constexpr std::string_view kind = "axis";
  static constexpr std::array<std::string_view, 2> names{"features", "rows"};
};

/// The parameters of a `reduce` layer. Input: batch x rows x features.
struct ReduceShape {
  std::int64_t batch, rows, features;
  ReduceOperation operation;
  ReduceAxis axis;
};
/// The layer must be a reduce.
ReduceShape reduce_shape(const Layer& layer);

extern const Operator reduce_operator;

}  // namespace forecost
