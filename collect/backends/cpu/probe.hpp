#pragma once

#include <functional>

#include "collect/backend.hpp"
#include "collect/backends/cpu/memory.hpp"
#include "collect/backends/cpu/primitives.hpp"
#include "data/device.hpp"

namespace forecost::cpu {

/// Which rounds of a probe are told: what a quarter of them reach repeats from probe to probe, also
/// where the clock changes, while the best one is what nothing should exceed.
inline constexpr double upper_quartile = 0.75, best_round = 1;

/// What this device reaches, set as its probed attributes and bandwidth curve. Round after round,
/// as many as fit into `budget_s` and normally three at least, each figure is taken anew; the
/// quantile `told_share` of them is told.
/// - Matrix peaks: the better of an inner product and a convolution of about a millisecond.
/// - Memory bandwidth: the better of reading and of STREAM's triad, far beyond the caches.
/// - The curve: every thread reads its own part again and again; its maximum is the cache
/// bandwidth.
/// - The size of the caches that a process really gets, to a factor of two: see
///   effective_cache_bytes().
/// - Host link: copies from memory to memory, which is what a transfer is on a CPU; a byte that is
///   read and written counts once.
/// - Launch latency: the smallest primitive, one after another.
/// Overwrites the arena.
ProbeReport probe_device(const dnnl::engine& engine, Arena& arena, const RandomPool& pool,
                         bool has_bf16, double budget_s, double told_share,
                         const std::function<void()>& after_round, Device& device);

/// The largest working set that is read 1.6 times as fast as the largest of all, which is memory's
/// rate: a last-level cache is two times faster than memory or more. The smallest of all if none
/// is. The curve is not empty.
double effective_cache_bytes(const BandwidthCurve& curve);

/// Whether the CPU multiplies bf16 by instructions of its own; oneDNN emulates it elsewhere.
bool cpu_has_bf16();
/// "avx512_core_bf16": what oneDNN dispatches to.
std::string cpu_isa_name();

}  // namespace forecost::cpu
