#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/measurement.hpp"

namespace forecost {

/// How many rows a status has for a reason.
struct ReasonCount {
  Status status;
  std::string reason;
  std::int64_t rows;
};

/// The reasons of rows that are not ok or say something all the same, the most frequent one first.
/// Reasons of a status that differ in numbers alone are one, with the range of each such number:
/// "other programs took 96 to 100 % of a core's time".
std::vector<ReasonCount> count_reasons(std::span<const Measurement> rows);

}  // namespace forecost
