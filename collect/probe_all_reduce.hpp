#pragma once

#include <functional>
#include <optional>

#include "collect/backend.hpp"
#include "mpi/world.hpp"

namespace forecost {

/// What the ranks of this world reach together in summing 16 MiB of f32, set in each backend's
/// device as probed_allreduce_bytes_per_s: bytes that a rank sends (and as many that it receives)
/// in a ring, 2 (n - 1) / n of the buffer, per second of the slowest rank. This "bus bandwidth"
/// hardly depends on the number of ranks (nccl-tests, doc/PERFORMANCE.md). The best of several
/// rounds counts.
///
/// Returns by how much the median round fell short of it. Nothing is done, and nothing returned,
/// with one rank, or where a rank has no device to measure on (a manager, replay), or once `stop`
/// says so on any rank. Every rank of the world calls it; `backend` may be null. `budget_s` is the
/// same on all of them; where rounds are slow it may take ten times that.
std::optional<double> probe_all_reduce(const World& world, TimingBackend* backend, double budget_s,
                                       const std::function<bool()>& stop = {});

}  // namespace forecost
