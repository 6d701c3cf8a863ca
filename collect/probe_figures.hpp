#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "collect/backend.hpp"
#include "data/device.hpp"

// What the probes of all backends have in common: rounds, and what is told of them.

namespace forecost {

/// Which rounds of a probe are told: what a quarter of them reach repeats from probe to probe, also
/// where the clock changes, while the best one is what nothing should exceed.
inline constexpr double upper_quartile = 0.75, best_round = 1;

/// One figure, round by round; larger is better. What was taken while the device was throttled
/// counts only where nothing else was taken.
class Series {
 public:
  void add(double value, bool throttled = false) {
    (throttled ? throttled_ : rounds_).push_back(value);
  }
  /// A quantile of the rounds; there is one at least.
  double reached(double share) const;
  bool empty() const { return rounds_.empty() && throttled_.empty(); }
  bool throttled() const { return rounds_.empty() && !throttled_.empty(); }

 private:
  std::vector<double> rounds_, throttled_;
};

struct ProbeFigures {
  std::map<Attribute, Series> rates;
  Series launches_per_s;
  std::map<double, Series> curve;  ///< bytes per second by working set in bytes
};

/// Calls `round` (with its number, from 0) as often as fits into `budget_s`, and normally three
/// times at least, and `after_round` after each. `now_s` is the backend's clock. The number of
/// rounds.
int probe_rounds(double budget_s, const std::function<double()>& now_s,
                 const std::function<void(int)>& round, const std::function<void()>& after_round);

/// Sets in the device the quantile `told_share` of each figure, of the curve also its maximum as
/// the cache bandwidth and the size of the caches. What no round told stays unknown, and so does
/// what cannot be, which the report tells.
ProbeReport tell(const ProbeFigures& figures, int rounds, double told_share, Device& device);

/// The largest working set that is read 1.6 times as fast as the largest of all, which is memory's
/// rate: a last-level cache is two times faster than memory or more. nullopt if none is: no cache
/// is seen. The curve is not empty.
std::optional<double> effective_cache_bytes(const BandwidthCurve& curve);

/// After a second probe of a device: the larger of both limits, and of what is no limit the first.
void keep_larger_limits(const Device& before, Device& device);

}  // namespace forecost
