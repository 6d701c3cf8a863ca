#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/networks/network.hpp"
#include "data/toml.hpp"

namespace forecost {

/// A node of a network that only shapes depend on: it has no operator of the vocabulary yet. One
/// entry in structural.cpp defines each.
struct Structural {
  std::string_view name;
  bool takes_time;  ///< then it is counted as uncosted
  std::vector<std::string> keys;
  /// The output's shape; fills the attributes. `inputs` has one shape or more. Complaints through
  /// table.fail().
  ItemShape (*shape)(const TomlValue& table, std::span<const ItemShape> inputs,
                     std::map<std::string, std::string>& attributes);
};

std::span<const Structural> structural_nodes();
/// nullptr if there is none of that name.
const Structural* find_structural(std::string_view name);

}  // namespace forecost
