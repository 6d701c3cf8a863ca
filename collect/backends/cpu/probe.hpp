#pragma once

#include "collect/backends/cpu/memory.hpp"
#include "collect/backends/cpu/primitives.hpp"
#include "data/device.hpp"

namespace forecost::cpu {

/// What this device reaches, set as its probed attributes: matrix peaks (the best of several runs
/// of a large inner product and a large convolution), memory bandwidth (the better of reading and
/// of STREAM's triad, far beyond the caches), cache bandwidth (the best of smaller sizes), the size
/// at which bandwidth falls to memory's, and the time of the smallest primitive. Takes about 2.5 s,
/// ten times as long if `thorough`. Overwrites the arena.
void probe_device(const dnnl::engine& engine, Arena& arena, const RandomPool& pool, bool has_bf16,
                  bool thorough, Device& device);

/// Whether the CPU multiplies bf16 by instructions of its own; oneDNN emulates it elsewhere.
bool cpu_has_bf16();
/// "avx512_core_bf16": what oneDNN dispatches to.
std::string cpu_isa_name();

}  // namespace forecost::cpu
