#include <algorithm>
#include <cmath>
#include <tuple>

#include "data/operators/matmul.hpp"
#include "train/model/schemas.hpp"

namespace forecost {
namespace {

bool covers(const Task& task) { return task.layer.op().name == "matmul"; }

/// The gradients' products have the same three extents in other places, and the pass tells which
/// they are.
void describe(const Query& query, Features& features) {
  const MatmulShape s = matmul_shape(query.task.layer);
  const auto batch = static_cast<double>(s.batch), m = static_cast<double>(s.m),
             n = static_cast<double>(s.n), k = static_cast<double>(s.k);
  describe_work(query, features);
  describe_product(m, n, k, features);
  features.add_log("log batch", batch);
  const DeviceLimits limits = device_limits(*query.device, query.task.dtype);
  // Tiles of the result that cores take in turn: how full the last turn is matters while there are
  // few.
  const auto tiles = [&](double side) {
    return batch * std::ceil(m / side) * std::ceil(n / side) / limits.cores;
  };
  for (const auto& [side, count, waste] :
       {std::tuple{64, "log tiles 64/cores", "waste of turns 64"},
        std::tuple{128, "log tiles 128/cores", "waste of turns 128"}}) {
    const double turns = tiles(side);
    features.add_log(count, turns, 1e-6);
    features.add_log(waste, std::min(std::ceil(turns) / turns, 1e3));
  }
  const double size = bytes_of(query.task.dtype);
  features.add_log("log first/l2", size * m * k / limits.l2_bytes, 1e-6);
  features.add_log("log second/l2", size * k * n / limits.l2_bytes, 1e-6);
  for (const auto& [extent, odd, by_8] :
       {std::tuple{s.m, "m odd", "m by 8"}, std::tuple{s.n, "n odd", "n by 8"},
        std::tuple{s.k, "k odd", "k by 8"}}) {
    features.add(odd, extent % 2 != 0 ? 1 : 0);
    features.add(by_8, extent % 8 == 0 ? 1 : 0);
  }
}

}  // namespace

const FeatureSchema matmul_schema{
    .name = "matmul",
    .covers = &covers,
    .describe = &describe,
    .target = &log_ratio_target,
    .seconds = &log_ratio_seconds,
    .example = "forward f32 none cold heuristic matmul batch=1 m=1 n=1 k=1",
};

}  // namespace forecost
