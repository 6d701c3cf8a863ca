#include "data/work.hpp"

#include <algorithm>
#include <cmath>

#include "data/device.hpp"

namespace forecost {

OptimizerCost optimizer_cost(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::none:
      return {0, 0};
    case Optimizer::sgd:
      return {0, 2};  // w -= r g
    case Optimizer::momentum:
      return {1, 4};  // v = m v + g; w -= r v
    case Optimizer::adagrad:
      return {1, 7};  // s += g g; w -= r g / (sqrt(s) + e)
    case Optimizer::adadelta:
      return {2, 14};  // two decayed mean squares, two roots, one division
    case Optimizer::rmsprop:
      return {1, 9};  // s = d s + (1 - d) g g; w -= r g / (sqrt(s) + e)
    case Optimizer::adam:
      return {2, 13};  // two decayed moments, bias corrections, root, division
    case Optimizer::adamw:
      return {2, 15};  // adam and w -= r l w
  }
  return {0, 0};
}

Work update_work(double elements, DType dtype, Optimizer optimizer) {
  const OptimizerCost cost = optimizer_cost(optimizer);
  const double state_bytes = cost.state_tensors * bytes_of(DType::f32);
  return {.flops = cost.flops_per_element * elements,
          .bytes_read = (2 * bytes_of(dtype) + state_bytes) * elements,
          .bytes_written = (bytes_of(dtype) + state_bytes) * elements,
          .parameters = elements};
}

double roofline_s(const Work& work, DType dtype, const Device& device) {
  const double compute = work.flops / device.peak_flops(dtype);
  const double memory = work.moved_bytes() / device.bandwidth_bytes_per_s(work.traffic);
  return std::fmax(compute, memory);  // ignores a NaN on one side
}

}  // namespace forecost
