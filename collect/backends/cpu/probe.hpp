#pragma once

#include <functional>

#include "collect/backend.hpp"
#include "collect/backends/cpu/memory.hpp"
#include "collect/backends/cpu/primitives.hpp"
#include "data/device.hpp"

namespace forecost::cpu {

/// What this device reaches, set as its probed attributes and bandwidth curve. Round after round,
/// as many as fit into `budget_s` and normally three at least, each figure is taken anew; its best
/// round counts, since whatever disturbs a round only lowers it.
/// - Matrix peaks: the better of an inner product and a convolution of about a millisecond.
/// - Memory bandwidth: the better of reading and of STREAM's triad, far beyond the caches.
/// - The curve: every thread reads its own part again and again; its maximum is the cache
/// bandwidth.
/// - The size of the caches that a process really gets: where the curve falls to memory's rate.
/// - Host link: copies from memory to memory, which is what a transfer is on a CPU; a byte that is
///   read and written counts once.
/// - Launch latency: the smallest primitive, one after another.
/// Overwrites the arena.
ProbeReport probe_device(const dnnl::engine& engine, Arena& arena, const RandomPool& pool,
                         bool has_bf16, double budget_s, const std::function<void()>& after_round,
                         Device& device);

/// Where a curve falls to memory's rate: the size, between two points of it, at which it crosses
/// 1.6 times that; a last-level cache is two times faster than memory or more. The smallest size if
/// all of the curve is slower, the largest if none is. The curve is not empty.
double effective_cache_bytes(const BandwidthCurve& curve, double memory_bytes_per_s);

/// Whether the CPU multiplies bf16 by instructions of its own; oneDNN emulates it elsewhere.
bool cpu_has_bf16();
/// "avx512_core_bf16": what oneDNN dispatches to.
std::string cpu_isa_name();

}  // namespace forecost::cpu
