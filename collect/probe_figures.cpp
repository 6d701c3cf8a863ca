#include "collect/probe_figures.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/statistics.hpp"

namespace forecost {

double Series::reached(double share) const {
  std::vector<double> sorted = rounds_.empty() ? throttled_ : rounds_;
  std::sort(sorted.begin(), sorted.end());
  return quantile(sorted, share);
}

int probe_rounds(double budget_s, const std::function<double()>& now_s,
                 const std::function<void(int)>& round, const std::function<void()>& after_round) {
  // Three at least, unless the machine is so busy that even these take long.
  constexpr double patience_s = 10;
  const double begin = now_s();
  double elapsed_s = 0, round_s = 0;
  int rounds = 0;
  do {
    round(rounds);
    ++rounds;
    if (after_round) after_round();
    const double now = now_s() - begin;
    round_s = now - elapsed_s;
    elapsed_s = now;
  } while (elapsed_s + round_s <= budget_s ||
           (rounds < ProbeReport::enough_rounds && elapsed_s < patience_s));
  return rounds;
}

ProbeReport tell(const ProbeFigures& figures, int rounds, double told_share, Device& device) {
  ProbeReport report;
  report.rounds = rounds;
  // A figure may come out as one that cannot be, too slow on a machine that others keep busy, too
  // fast where a clock is at fault: it stays unknown, and the run goes on.
  const auto refuse = [&](const UsageError& error, bool too_fast) {
    report.warnings.push_back(
        fmt::format("the probe found {}: left unknown{}", error.what(),
                    too_fast ? ", since no device is that fast: is its clock right?"
                             : "; is the machine busy?"));
  };
  const auto keep = [&](Attribute attribute, double value) {
    const AttributeInfo& info = attribute_table()[static_cast<std::size_t>(attribute)];
    try {
      device.set(attribute, value);
    } catch (const UsageError& error) {
      refuse(error, info.units == "s" ? value < info.min : value > info.max);
    }
  };
  const auto spread = [&](const Series& series) {
    return 1 - series.reached(0.5) / series.reached(told_share);
  };
  const auto tell_of = [&](Attribute attribute, const Series& series) {
    report.spread[attribute] = spread(series);
    if (series.throttled()) report.throttled.insert(attribute);
  };
  for (const auto& [attribute, series] : figures.rates) {
    keep(attribute, series.reached(told_share));
    tell_of(attribute, series);
  }
  const Series& launches = figures.launches_per_s;
  if (!launches.empty()) {
    keep(Attribute::probed_launch_latency_s, 1 / launches.reached(told_share));
    tell_of(Attribute::probed_launch_latency_s, launches);
  }
  if (figures.curve.empty()) return report;
  BandwidthCurve curve, middle;
  for (const auto& [bytes, series] : figures.curve) {
    curve[bytes] = series.reached(told_share);
    middle[bytes] = series.reached(0.5);
    report.curve_spread[bytes] = spread(series);
    if (series.throttled()) report.curve_throttled.insert(bytes);
  }
  const auto fastest = std::max_element(
      curve.begin(), curve.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  keep(Attribute::probed_cache_bandwidth_bytes_per_s, fastest->second);
  tell_of(Attribute::probed_cache_bandwidth_bytes_per_s, figures.curve.at(fastest->first));
  if (const auto cache_bytes = effective_cache_bytes(curve)) {
    keep(Attribute::probed_cache_bytes, *cache_bytes);
    report.spread[Attribute::probed_cache_bytes] =
        std::abs(1 - effective_cache_bytes(middle).value_or(0) / *cache_bytes);
  }
  const double rate = fastest->second;  // of what is moved away
  try {
    device.set_bandwidth_curve(std::move(curve));
  } catch (const UsageError& error) {
    constexpr auto rates = static_cast<std::size_t>(Attribute::probed_bandwidth_bytes_per_s);
    refuse(error, rate > attribute_table()[rates].max);
  }
  return report;
}

std::optional<double> effective_cache_bytes(const BandwidthCurve& curve) {
  // From the largest down: a dip among the smaller ones is no end of the caches.
  const auto fast = std::find_if(curve.rbegin(), curve.rend(), [&](const auto& point) {
    return point.second >= 1.6 * curve.rbegin()->second;
  });
  return fast == curve.rend() ? std::nullopt : std::optional(fast->first);
}

void keep_larger_limits(const Device& before, Device& device) {
  for (const Attribute rate :
       {Attribute::probed_f32_flops, Attribute::probed_tf32_flops, Attribute::probed_f16_flops,
        Attribute::probed_bf16_flops, Attribute::probed_bandwidth_bytes_per_s,
        Attribute::probed_cache_bandwidth_bytes_per_s, Attribute::probed_host_link_bytes_per_s}) {
    if (before[rate] > device[rate]) device.set(rate, before[rate]);
  }
  // Those are no limits: the same for all rows of a run.
  for (const Attribute other :
       {Attribute::probed_launch_latency_s, Attribute::probed_cache_bytes}) {
    if (before.has(other)) device.set(other, before[other]);
  }
  if (!before.bandwidth_curve().empty()) device.set_bandwidth_curve(before.bandwidth_curve());
}

}  // namespace forecost
