#pragma once

#include <span>
#include <string>
#include <vector>

#include "train/model/model.hpp"

namespace forecost {

/// Errors of predictions against measurements of one group of rows. Fractions, not percentages; NaN
/// where nothing can be said.
struct EvaluationRow {
  std::string op, device, pass, split;  ///< split: "seen", "held_out", "held_out_device"
  std::int64_t n = 0;
  double mape = 0;  ///< mean of |predicted - measured| / measured
  double median_ape = 0;
  double within_10 = 0;  ///< share of rows within 10 %
  double rmse_s = 0;
  double bias = 0;      ///< mean of (predicted - measured) / measured
  double coverage = 0;  ///< share of measurements within the interval
  double roofline_mape = 0, linear_published_mape = 0, linear_fair_mape = 0;
};

struct Evaluation {
  std::vector<EvaluationRow> rows;
  std::int64_t not_covered = 0;  ///< rows of operators, passes or dtypes the model does not know
};

/// By operator, device, pass and split; rows with the operator or the pass "all" are over all of
/// them together.
Evaluation evaluate(const Model& model, std::span<const Example> examples);

/// An aligned table for people.
std::string evaluation_table(const Evaluation& evaluation);
/// {"rows": [...]}, as the command line documents it; null for NaN.
std::string evaluation_json(const Evaluation& evaluation);

}  // namespace forecost
