#include "collect/probe_all_reduce.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "core/statistics.hpp"
#include "mpi/collective.hpp"

namespace forecost {

std::optional<double> probe_all_reduce(const World& world, TimingBackend* backend, double budget_s,
                                       const std::function<bool()>& stop) {
  const bool measures = backend != nullptr && backend->protocol() != Protocol::virtual_clock;
  if (world.all_max(measures ? 0 : 1) != 0 || world.size() == 1) return std::nullopt;

  const auto collective = make_collective(world);
  std::vector<float> values((std::size_t{16} << 20) / sizeof(float));
  bool stopped = false;
  const auto slowest = [&](double seconds) {
    std::array<double, 2> agreed{seconds, stop && stop() ? 1.0 : 0.0};
    collective->max(agreed);
    stopped = stopped || agreed[1] > 0;
    return agreed[0];
  };
  const double n = world.size();
  const double bytes = 2 * (n - 1) / n * static_cast<double>(values.size() * sizeof(float));
  std::vector<double> rates;
  constexpr int warm_ups = 2, min_rounds = 5, max_rounds = 1000;
  // Where ranks share their cores with other programs a round may take seconds.
  const double patience_s = 10 * budget_s;
  double spent_s = 0;  // the same on every rank, so that all end together
  const auto goes_on = [&](int rounds) {
    if (rounds <= warm_ups) return true;
    if (rounds < warm_ups + min_rounds) return spent_s < patience_s;
    return spent_s < budget_s && rounds < max_rounds;
  };
  for (int i = 0; !stopped && goes_on(i); ++i) {
    for (std::size_t k = 0; k < values.size(); ++k) {  // sums of sums would overflow
      values[k] = static_cast<float>(k % 1009) / 1009.F - 0.5F;
    }
    slowest(0);  // all begin together
    if (stopped) break;
    const double begin = backend->now_s();
    collective->sum(values);
    const double seconds = slowest(backend->now_s() - begin);
    spent_s += seconds;
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
