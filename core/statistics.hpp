#pragma once

#include <vector>

namespace forecost {

/// Quantile by linear interpolation between the order statistics; `sorted` is ascending and not
/// empty, 0 <= q <= 1.
double quantile(const std::vector<double>& sorted, double q);
/// Of values in any order; NaN if there are none.
double median(std::vector<double> values);

}  // namespace forecost
