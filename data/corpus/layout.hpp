#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "data/corpus/fields.hpp"
#include "data/layer.hpp"

// The layout of corpus.h5, for the code that writes and reads it; docs/corpus.md describes it for
// readers in other languages.

namespace forecost::layout {

inline constexpr const char* schema_name = "forecost-corpus";
inline constexpr const char* row_dimension = "row";
inline constexpr const char* sample_dimension = "sample";
/// Index of the row's first raw sample; a row's samples end where the next row's begin.
inline constexpr const char* sample_begin = "sample_begin";
inline constexpr const char* samples = "samples_s";

/// Every other group is an operator.
inline bool is_table(std::string_view group) {
  return group == "devices" || group == "environments" || group == "groups" || group == "runs" ||
         group == "sweeps";
}

/// The names of all datasets in the group of an operator, in a file of that schema version:
/// parameters, fields (the sparse ones too), samples, dimensions.
std::set<std::string> columns_of(const Operator& op, std::int64_t schema_version);
/// What a field is called there. Version 1 had `n`, which made room for the parameter of matmul: in
/// a group, fields and parameters are side by side.
inline std::string column_name(std::string_view field, std::int64_t schema_version) {
  return std::string(schema_version == 1 ? name_in_version_1(field) : field);
}

/// A stand-in for a layer that is not read.
Layer smallest_layer(const Operator& op);

}  // namespace forecost::layout
