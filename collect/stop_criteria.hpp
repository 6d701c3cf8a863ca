#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "collect/sweep.hpp"
#include "data/vocabulary.hpp"

namespace forecost {

/// Lower and upper bound, in the samples' unit.
struct MedianInterval {
  double low, high;
};
/// Distribution-free interval that holds the median with at least 95 %: order statistics whose
/// ranks follow from the binomial distribution (Conover, "Practical Nonparametric Statistics",
/// 1999, 3.2). With fewer than 6 samples it is the whole range. At least one sample.
MedianInterval median_interval_95(std::span<const double> samples);

/// One reason to stop sampling (MEASURING.md rule 6). It sees all samples so far, in order, and the
/// seconds since sampling began, after each sample; it may keep state of its own.
struct StopCriterion {
  StopReason reason;
  std::function<bool(std::span<const double> samples_s, double elapsed_s)> met;
};

/// At least `min_samples`, and half the width of median_interval_95 is within `precision` of the
/// median.
StopCriterion stop_when_precise(std::size_t min_samples, double precision);
/// The relative interquartile range has settled: over the last `window` samples it moved by less
/// than 5 % of itself, and the two halves of the samples agree in their median (a trend never
/// settles). More samples would then cost more than they tell.
StopCriterion stop_when_noise_is_stable(std::size_t min_samples, std::size_t window = 20);
StopCriterion stop_after_time(double budget_s);
StopCriterion stop_after_samples(std::size_t max_samples);

/// The criteria of a sweep's rules, in order of preference; the first one that is met names the
/// reason.
std::vector<StopCriterion> stop_criteria(const MeasureRules& rules);

}  // namespace forecost
