#include "data/operators/fused.hpp"

#include <stdexcept>

namespace forecost {

std::vector<std::int64_t> weights_and_bias(std::int64_t weights, std::int64_t bias) {
  if (bias == 0) return {weights};
  return {weights, bias};
}

Work affine_work(const AffineCost& c, Pass pass, DType dtype) {
  const ActivationCost activation = activation_cost(c.activation);
  const bool fused = c.activation != Activation::none;
  const double size = bytes_of(dtype);
  Work work;
  work.parameters = c.weights + c.bias;
  work.padding_flops = 2 * c.padding_macs;
  switch (pass) {
    case Pass::forward:
      work.flops = 2 * c.macs + (c.bias > 0 ? c.output : 0) + activation.forward_flops * c.output;
      work.bytes_read = size * (c.input + c.weights + c.bias);
      work.avoidable_bytes = size * c.stepped_over_input;
      work.bytes_written = size * c.output;
      return work;
    case Pass::backward_data:
      work.flops = 2 * c.macs + activation.backward_flops * c.output;
      work.bytes_read = size * (c.output + c.weights + (fused ? c.output : 0));
      work.bytes_written = size * (c.input + (fused ? c.output : 0));
      return work;
    case Pass::backward_weights:
      work.flops = 2 * c.macs + (c.bias > 0 ? c.output : 0);
      work.bytes_read = size * (c.output + c.input);
      work.avoidable_bytes = size * c.stepped_over_input;
      work.bytes_written = size * (c.weights + c.bias);
      return work;
    case Pass::backward:
    case Pass::update:
    case Pass::training_step:
      break;
  }
  throw std::logic_error("affine_work: forward, backward_data or backward_weights expected");
}

}  // namespace forecost
