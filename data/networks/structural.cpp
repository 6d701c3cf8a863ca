#include "data/networks/structural.hpp"

#include <algorithm>
#include <array>

namespace forecost {

std::span<const Structural> structural_nodes() {
  static constexpr std::array all{
      // All elements as one vector.
      Structural{"flatten", [](const ItemShape& in) { return ItemShape{in.elements()}; }},
      // The first position of a sequence: what a classifier reads of BERT.
      Structural{"first", [](const ItemShape& in) { return ItemShape{in.sequence().features}; }},
  };
  return all;
}

const Structural* find_structural(std::string_view name) {
  const auto all = structural_nodes();
  const auto at = std::find_if(all.begin(), all.end(), [&](auto& s) { return s.name == name; });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace forecost
