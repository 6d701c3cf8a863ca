#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "predict/compose.hpp"

namespace forecost {

/// A prediction and, where a data set was given, what a run over it takes.
struct PresentedTime {
  NetworkTime time;
  std::optional<RunTime> run;
};

/// One strict JSON object (docs/networks.md lists the keys); null for what the mode does not have.
std::string predictions_json(std::span<const PresentedTime> predictions);
/// Totals, one line per prediction.
std::string totals_table(std::span<const PresentedTime> predictions);
/// The layers of one prediction: the `most` most expensive ones, in the network's order; 0: all.
std::string layers_table(const NetworkTime& time, std::size_t most);

}  // namespace forecost
