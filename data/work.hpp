#pragma once

#include "data/vocabulary.hpp"

namespace forecost {

class Device;

/// What a pass has to do at least, derived from the layer by formula. A multiply-add is two FLOPs;
/// every operand is read once and every result written once.
struct Work {
  double flops = 0;
  double bytes_read = 0;
  double bytes_written = 0;
  double parameters = 0;  ///< elements that training changes
  /// Part of `flops` that multiplies padding, which many kernels leave out.
  double padding_flops = 0;
  /// Part of `bytes_read` that need not come from memory: what a stride steps over, and what is
  /// read again.
  double avoidable_bytes = 0;
  Traffic traffic = Traffic::memory;

  /// One after the other: everything adds up but the parameters, which are the same ones.
  friend Work operator+(const Work& a, const Work& b) {
    return {a.flops + b.flops,
            a.bytes_read + b.bytes_read,
            a.bytes_written + b.bytes_written,
            a.parameters > b.parameters ? a.parameters : b.parameters,
            a.padding_flops + b.padding_flops,
            a.avoidable_bytes + b.avoidable_bytes,
            a.traffic};
  }

  double bytes() const { return bytes_read + bytes_written; }
  /// Bytes that a rate in bytes per second has to move: memory's counts both ways together, a
  /// link's each way alone.
  double moved_bytes() const {
    if (traffic == Traffic::memory) return bytes();
    return bytes_read > bytes_written ? bytes_read : bytes_written;
  }
  /// FLOP per byte; 0 where nothing moves.
  double arithmetic_intensity() const { return bytes() > 0 ? flops / bytes() : 0; }
};

/// The optimizer's own work on `elements` parameters: state tensors read and written besides
/// parameter and gradient, and FLOPs per element. Counted from the update rules in the papers:
/// momentum (Polyak 1964), Adagrad (Duchi 2011), Adadelta (Zeiler 2012), RMSprop (Hinton 2012),
/// Adam (Kingma 2015), AdamW (Loshchilov 2019). The optimizer's state is f32, as frameworks keep
/// it.
struct OptimizerCost {
  int state_tensors;
  double flops_per_element;
};
OptimizerCost optimizer_cost(Optimizer optimizer);
/// Work of one update step of `elements` parameters stored as `dtype`.
Work update_work(double elements, DType dtype, Optimizer optimizer);

/// Seconds by the roofline (Williams, Waterman, Patterson 2009): the larger of FLOPs over peak and
/// bytes over the bandwidth of their traffic, from probed attributes where the device has them,
/// else nominal ones. NaN if it has neither peak nor bandwidth.
double roofline_s(const Work& work, DType dtype, const Device& device);

}  // namespace forecost
