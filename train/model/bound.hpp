#pragma once

#include "data/device.hpp"
#include "data/work.hpp"

namespace forecost {

/// What features and the bound take from a device: probed attributes, else nominal ones, else fixed
/// values of a common server core, so that predictions stay finite for a device file with gaps.
struct DeviceLimits {
  double peak_flops, bandwidth_bytes_per_s, host_link_bytes_per_s, interconnect_bytes_per_s,
      cache_bytes, l2_bytes, launch_s, cores, clock_hz;

  /// Of the task's bytes to move, at the rate of the memory or link that they move through.
  double traffic_s(const Work& work) const;
};
DeviceLimits device_limits(const Device& device, DType dtype);

/// The bound that the default predictor's ratio refers to: launch latency plus the roofline. Always
/// positive and finite.
double bound_s(const Work& work, const DeviceLimits& limits);

}  // namespace forecost
