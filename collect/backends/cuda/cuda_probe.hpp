#pragma once

#include <functional>

#include "collect/backends/cuda/cuda_case.hpp"
#include "collect/probe_figures.hpp"

namespace forecost::cuda {

/// What this GPU reaches, set as its probed attributes and bandwidth curve.
/// - Matrix peaks by dtype: a square product by cuBLASLt's first choice.
/// - Memory bandwidth: reading four times the L2 and more, cold by its size.
/// - The curve: the whole device reads a working set again and again.
/// - Host link: copies from pinned memory to the device.
/// - Launch latency: kernels that do nothing, one after another, on the host's clock.
ProbeReport probe_device(OpenDevice& device, ThrottleWatch& throttle, double budget_s,
                         double told_share, const std::function<void()>& after_round,
                         Device& found);

}  // namespace forecost::cuda
