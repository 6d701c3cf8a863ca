#include "train/model/features.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace forecost {

void Features::add_log(std::string_view name, double value, double floor) {
  add(name, std::log(std::max(value, floor)));
}

std::vector<std::string> FeatureSchema::names() const {
  const Device device;
  Features features(true);
  describe({parse_task(example), &device}, features);
  return features.names();
}

double log_ratio_target(const Query& query, double seconds) {
  return std::log(seconds /
                  bound_s(query.task.work(), device_limits(*query.device, query.task.dtype)));
}

double log_ratio_seconds(const Query& query, double target) {
  return std::exp(target) *
         bound_s(query.task.work(), device_limits(*query.device, query.task.dtype));
}

void describe_work(const Query& query, Features& features) {
  const Task& task = query.task;
  const DeviceLimits limits = device_limits(*query.device, task.dtype);
  const Work work = task.work();
  const double compute_s = work.flops / limits.peak_flops;
  const double memory_s = limits.traffic_s(work);
  const double ridge = limits.peak_flops / limits.bandwidth_bytes_per_s;
  const double tiny = 1e-3;
  features.add_log("log compute/launch", compute_s / limits.launch_s, tiny);
  features.add_log("log memory/launch", memory_s / limits.launch_s, tiny);
  features.add_log("log bound/launch", bound_s(work, limits) / limits.launch_s, tiny);
  features.add_log("log intensity/ridge", work.arithmetic_intensity() / ridge, 1e-4);
  features.add_log("log bytes/cache", work.bytes() / limits.cache_bytes, 1e-6);
  features.add_log("log bytes/l2", work.bytes() / limits.l2_bytes, 1e-6);
  features.add_log("log read/written", work.bytes_read / std::max(work.bytes_written, 1.0), 1e-6);
  features.add_log("log cores", limits.cores);
  features.add_log("log ridge", ridge, 1e-3);
  features.add_one_hot(task.pass);
  features.add_one_hot(task.dtype);
  features.add_one_hot(task.cache);
}

void describe_product(double m, double n, double k, Features& features) {
  features.add_log("log m", m);
  features.add_log("log n", n);
  features.add_log("log k", k);
  features.add_log("log min(m, n, k)", std::min({m, n, k}));
  struct Tile {
    double size;
    std::array<std::string_view, 3> names;
  };
  static constexpr std::array<Tile, 3> tiles{{
      {16, {"waste m/16", "waste n/16", "waste k/16"}},
      {32, {"waste m/32", "waste n/32", "waste k/32"}},
      {64, {"waste m/64", "waste n/64", "waste k/64"}},
  }};
  const std::array<double, 3> extents{m, n, k};
  for (const Tile& tile : tiles) {
    for (std::size_t i = 0; i < 3; ++i) {
      features.add_log(tile.names[i], std::ceil(extents[i] / tile.size) * tile.size / extents[i]);
    }
  }
}

void describe_rows(double rows, double length, Features& features) {
  features.add_log("log elements", rows * length);
  features.add_log("log rows", rows);
  features.add_log("log row length", length);
  for (const auto& [lanes, name] :
       {std::pair{4.0, "waste row/4"}, {32.0, "waste row/32"}, {1024.0, "waste row/1024"}}) {
    features.add_log(name, std::ceil(length / lanes) * lanes / length);
  }
}

}  // namespace forecost
