#pragma once

#include <span>
#include <string_view>

#include "data/item_shape.hpp"

namespace forecost {

/// A node of a network that changes the shape of its input and takes no time.
struct Structural {
  std::string_view name;
  /// Throws UsageError for a shape that it cannot take.
  ItemShape (*shape)(const ItemShape& input);
};

std::span<const Structural> structural_nodes();
/// nullptr if there is none of that name.
const Structural* find_structural(std::string_view name);

}  // namespace forecost
