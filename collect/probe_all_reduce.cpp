#include "collect/probe_all_reduce.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "collect/gang.hpp"
#include "core/statistics.hpp"

namespace forecost {

std::optional<double> probe_all_reduce(const World& world, TimingBackend* backend, double budget_s,
                                       const std::function<bool()>& stop) {
  const bool measures = backend != nullptr && backend->protocol() != Protocol::virtual_clock;
  if (world.all_max(measures ? 0 : 1) != 0 || world.size() == 1) return std::nullopt;

  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto gang = meet_gang(world, ranks, *backend);
  constexpr std::int64_t elements = (std::int64_t{16} << 20) / std::int64_t{sizeof(float)};
  const Task task{
      .layer = Layer("allreduce", {{"batch", 1}, {"elements", elements}, {"ranks", world.size()}})};
  std::unique_ptr<PreparedCase> prepared;
  std::string why_not;
  try {
    prepared = backend->prepare_collective(task, static_cast<std::uint64_t>(world.rank()), *gang);
  } catch (const CaseRefused& refused) {
    why_not = refused.what();
  }
  if (gang->max(prepared ? 0 : 1) > 0) {
    if (!why_not.empty()) spdlog::warn("all ranks together are not probed: {}", why_not);
    return std::nullopt;
  }
  bool stopped = false;
  const double n = world.size();
  const double bytes =
      2 * (n - 1) / n * static_cast<double>(elements * std::int64_t{sizeof(float)});
  std::vector<double> rates;
  constexpr int warm_ups = 2, min_rounds = 5, max_rounds = 100;
  // Where ranks share their cores with other programs a round may take seconds.
  const double patience_s = 10 * budget_s;
  double spent_s = 0;  // the same on every rank, so that all end together
  const auto goes_on = [&](int rounds) {
    if (rounds <= warm_ups) return true;
    if (rounds < warm_ups + min_rounds) return spent_s < patience_s;
    return spent_s < budget_s && rounds < max_rounds;
  };
  for (int i = 0; goes_on(i); ++i) {
    stopped = gang->max(stop && stop() ? 1 : 0) > 0;  // all begin together
    if (stopped) break;
    const double begin_s = backend->now_s();
    double seconds = std::numeric_limits<double>::infinity();
    try {
      seconds = prepared->run(1).device_s;
    } catch (const CaseRefused& refused) {
      spdlog::warn("all ranks together are not probed: {}", refused.what());
    }
    seconds = gang->max(seconds);
    if (!std::isfinite(seconds)) return std::nullopt;
    spent_s += gang->max(backend->now_s() - begin_s);
    if (i >= warm_ups) rates.push_back(bytes / seconds);
  }
  if (stopped) return std::nullopt;
  const double best = *std::max_element(rates.begin(), rates.end());
  try {
    backend->set_probed(Attribute::probed_allreduce_bytes_per_s, best);
  } catch (const UsageError& error) {
    // Ranks that share a core can be that slow; a sweep goes on without the figure.
    spdlog::warn("{}; it stays unknown", error.what());
    return std::nullopt;
  }
  return 1 - median(rates) / best;
}

}  // namespace forecost
