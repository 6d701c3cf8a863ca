#pragma once

#include <cstdint>

#include "cuda/module/context.hpp"

// What surrounds a measurement: operands' values and checksums, a busy device, an empty cache.

namespace forecost::cuda {

/// As the functions of ModuleTable of the same names. They wait, and throw Failure.
void fill_uniform(Context& context, void* memory, Element element, std::int64_t count, double low,
                  double high, std::uint64_t seed);
void fill_indices(Context& context, void* memory, std::int64_t count, std::int64_t bound,
                  std::uint64_t seed);
Sums sum(Context& context, const void* memory, Element element, std::int64_t count);
void zero(Context& context, void* memory, std::int64_t bytes);
void read(Context& context, const void* memory, Element element, std::int64_t count,
          double* values);
void flush(Context& context, std::int64_t bytes);
double spin(Context& context, double seconds);

/// Keeps the stream busy for this long, by the device's own clock. `blocks` of one warp: 1 leaves
/// the device as good as idle. Does not wait.
void enqueue_spin(Context& context, double seconds, int blocks);

}  // namespace forecost::cuda
