#include "train/model/bound.hpp"

#include <algorithm>
#include <cmath>

namespace forecost {

DeviceLimits device_limits(const Device& device, DType dtype) {
  const auto first_known = [](std::initializer_list<double> values) {
    for (const double v : values) {
      if (std::isfinite(v) && v > 0) return v;
    }
    return 0.0;
  };
  const double memory = first_known({device.bandwidth_bytes_per_s(), 1e10});
  return {
      .peak_flops = first_known({device.peak_flops(dtype), device.peak_flops(DType::f32), 1e11}),
      .bandwidth_bytes_per_s = memory,
      // Ranks of one host without a link of their own meet in its memory.
      .host_link_bytes_per_s =
          first_known({device.bandwidth_bytes_per_s(Traffic::host_link), memory / 2}),
      .interconnect_bytes_per_s =
          first_known({device.bandwidth_bytes_per_s(Traffic::interconnect), memory / 4}),
      .cache_bytes = first_known({device[Attribute::probed_cache_bytes],
                                  device[Attribute::llc_bytes], device[Attribute::l2_bytes], 32e6}),
      .l2_bytes = first_known({device[Attribute::l2_bytes], 1e6}),
      .launch_s = first_known(
          {device[Attribute::probed_launch_latency_s], device[Attribute::launch_latency_s], 5e-6}),
      .cores = first_known({device[Attribute::cores], 1}),
      .clock_hz = first_known({device[Attribute::clock_hz], 2e9}),
  };
}

double DeviceLimits::traffic_s(const Work& work) const {
  switch (work.traffic) {
    case Traffic::host_link:
      return work.moved_bytes() / host_link_bytes_per_s;
    case Traffic::interconnect:
      return work.moved_bytes() / interconnect_bytes_per_s;
    case Traffic::memory:
      break;
  }
  return work.moved_bytes() / bandwidth_bytes_per_s;
}

double bound_s(const Work& work, const DeviceLimits& limits) {
  return limits.launch_s + std::max(work.flops / limits.peak_flops, limits.traffic_s(work));
}

}  // namespace forecost
