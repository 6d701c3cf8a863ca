#pragma once

// Kernels that test the emulation itself.

namespace forecost::emulation {

/// Each thread of `blocks` blocks of 96 adds its number to that of its neighbour in the warp, by a
/// shuffle, and then to all of the block's, by shared memory: block b gives 96 x `start` + b + what
/// the threads' numbers make.
void sum_by_barriers(unsigned blocks, const int* start, int* sums);
/// Half of the threads of a block come to a barrier, the others to the next one.
void wait_for_nobody();
/// A shuffle of some lanes only.
void shuffle_with_few();

}  // namespace forecost::emulation
