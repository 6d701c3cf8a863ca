#pragma once

#include <functional>

#include "collect/backends/cpu/memory.hpp"
#include "collect/backends/cpu/primitives.hpp"
#include "collect/probe_figures.hpp"

namespace forecost::cpu {

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

/// Whether the CPU multiplies bf16 by instructions of its own; oneDNN emulates it elsewhere.
bool cpu_has_bf16();
/// "avx512_core_bf16": what oneDNN dispatches to.
std::string cpu_isa_name();

}  // namespace forecost::cpu
