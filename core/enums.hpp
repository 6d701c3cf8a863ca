#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace forecost {

/// Specialised for each enumeration that has names: `kind` (for messages) and `names`, where value
/// i of the enumeration is called names[i]. These names are what TOML, JSON, HDF5 and users see.
template <class E>
struct EnumNames;

template <class E>
constexpr std::string_view name_of(E value) {
  return EnumNames<E>::names.at(static_cast<std::size_t>(value));
}

/// Throws UsageError that lists the known names.
template <class E>
E parse_enum(std::string_view name) {
  const auto& names = EnumNames<E>::names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  const std::vector<std::string> known(names.begin(), names.end());
  throw UsageError(unknown_name(EnumNames<E>::kind, name, known));
}

}  // namespace forecost
