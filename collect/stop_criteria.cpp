#include "collect/stop_criteria.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/statistics.hpp"

namespace forecost {
namespace {

std::vector<double> sorted_copy(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

/// Sorting 2,000 samples after each of 2,000 would take longer than they do: look after every
/// sample first, then each time there are 5 % more.
class Looks {
 public:
  explicit Looks(std::size_t first) : next_(first) {}
  bool due(std::size_t n) {
    if (n < next_) return false;
    next_ = n + std::max<std::size_t>(1, n / 20);
    return true;
  }

 private:
  std::size_t next_;
};

}  // namespace

MedianInterval median_interval_95(std::span<const double> samples) {
  const std::vector<double> sorted = sorted_copy(samples);
  const std::size_t n = sorted.size();
  // The largest rank below which at most 2.5 % of a Binomial(n, 1/2) lies. The extended exponent
  // range of long double holds 2^-n far beyond any sample budget.
  long double probability = std::exp2(-static_cast<long double>(n));
  long double below = probability;
  std::size_t rank = 0;
  while (below <= 0.025L && rank < n / 2) {
    ++rank;
    probability *= static_cast<long double>(n - rank + 1) / static_cast<long double>(rank);
    below += probability;
  }
  const std::size_t low = rank == 0 ? 0 : rank - 1;
  return {sorted[low], sorted[n - 1 - low]};
}

StopCriterion stop_when_precise(std::size_t min_samples, double precision) {
  const auto looks = std::make_shared<Looks>(std::max<std::size_t>(min_samples, 1));
  return {StopReason::precise, [=](std::span<const double> samples, double) {
            if (!looks->due(samples.size())) return false;
            const MedianInterval interval = median_interval_95(samples);
            const double median = quantile(sorted_copy(samples), 0.5);
            return (interval.high - interval.low) / 2 <= precision * median;
          }};
}

StopCriterion stop_when_noise_is_stable(std::size_t min_samples, std::size_t window) {
  struct State {
    Looks looks;
    std::vector<std::pair<std::size_t, double>> noise;  // samples at that moment, relative range
  };
  const auto state =
      std::make_shared<State>(State{Looks(std::max<std::size_t>(min_samples, 2)), {}});
  return {StopReason::noise_stable, [=](std::span<const double> samples, double) {
            const std::size_t n = samples.size();
            if (!state->looks.due(n)) return false;
            const std::vector<double> sorted = sorted_copy(samples);
            const double median = quantile(sorted, 0.5);
            if (median <= 0) return false;
            const double range = (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / median;
            state->noise.emplace_back(n, range);
            if (state->noise.front().first + window > n) return false;
            double lowest = range, highest = range;
            for (auto look = state->noise.rbegin();
                 look != state->noise.rend() && look->first + window >= n; ++look) {
              lowest = std::min(lowest, look->second);
              highest = std::max(highest, look->second);
            }
            if (highest - lowest > 0.05 * highest) return false;
            const double first = quantile(sorted_copy(samples.first(n / 2)), 0.5);
            const double second = quantile(sorted_copy(samples.last(n / 2)), 0.5);
            return std::abs(second - first) <= 0.5 * range * median;
          }};
}

StopCriterion stop_after_time(double budget_s) {
  return {StopReason::time_budget,
          [=](std::span<const double>, double elapsed_s) { return elapsed_s >= budget_s; }};
}

StopCriterion stop_after_samples(std::size_t max_samples) {
  return {StopReason::sample_budget,
          [=](std::span<const double> samples, double) { return samples.size() >= max_samples; }};
}

std::vector<StopCriterion> stop_criteria(const MeasureRules& rules) {
  const auto min_samples = static_cast<std::size_t>(rules.min_samples);
  return {stop_when_precise(min_samples, rules.precision), stop_when_noise_is_stable(min_samples),
          stop_after_time(rules.budget_s),
          stop_after_samples(static_cast<std::size_t>(rules.max_samples))};
}

}  // namespace forecost
