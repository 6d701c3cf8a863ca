#include "data/operators/dropout.hpp"

#include "data/operators/pointwise.hpp"

namespace forecost {

DropoutShape dropout_shape(const Layer& layer) {
  const auto v = layer.values();
  return {v[0], v[1]};
}

namespace {

/// FLOPs per element, counted from the definition scaled in training (Srivastava et al. 2014,
/// section 10); the random number is left out. Forward, m = u < kept, y = x m / kept: 3; reads x,
/// writes y and the mask, a byte per element. backward, dx = dy m / kept: 2; reads dy and the mask,
/// writes dx.
Work own_work(const Layer& layer, Pass pass, DType dtype) {
  const auto n = static_cast<double>(pointwise_elements(layer));
  const double bytes = bytes_of(dtype) * n, mask = n;
  if (pass == Pass::forward) {
    return {.flops = 3 * n, .bytes_read = bytes, .bytes_written = bytes + mask};
  }
  return {.flops = 2 * n, .bytes_read = bytes + mask, .bytes_written = bytes};
}

constexpr ParameterInfo parameters[] = {
    batch_parameter,
    features_parameter,
};

}  // namespace

constinit const Operator dropout_operator = [] {
  Operator op = pointwise_operator<own_work>("dropout", parameters);
  op.training_only = true;
  return op;
}();

}  // namespace forecost
