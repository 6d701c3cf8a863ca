#include "train/deal.hpp"

#include <algorithm>
#include <numeric>

namespace forecost {

int default_ranks_per_model(int ranks, int networks) {
  for (int each = std::max(1, ranks / std::max(1, networks)); each > 1; --each) {
    if (ranks % each == 0) return each;
  }
  return 1;
}

std::vector<int> deal(std::span<const double> costs, int groups) {
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
  std::vector<double> load(static_cast<std::size_t>(groups), 0);
  std::vector<int> group_of(costs.size());
  for (const std::size_t job : order) {
    const auto least = std::min_element(load.begin(), load.end());
    group_of[job] = static_cast<int>(least - load.begin());
    *least += costs[job];
  }
  return group_of;
}

}  // namespace forecost
