#include "data/operators/softmax.hpp"

#include <algorithm>
#include <cmath>

#include "collect/reference/references.hpp"

namespace forecost {

Operands softmax_reference(const Task& task, const Operands& operands) {
  const auto features = static_cast<std::size_t>(softmax_shape(task.layer).features);
  const bool forward = task.pass == Pass::forward;
  std::vector<double> result = operands.at(forward ? "src" : "diff_dst");
  for (std::size_t row = 0; row < result.size(); row += features) {
    double* values = result.data() + row;
    if (forward) {
      const double largest = *std::max_element(values, values + features);
      double sum = 0;
      for (std::size_t i = 0; i < features; ++i) sum += std::exp(values[i] - largest);
      for (std::size_t i = 0; i < features; ++i) values[i] = std::exp(values[i] - largest) / sum;
    } else {
      const double* y = operands.at("dst").data() + row;
      double sum = 0;
      for (std::size_t i = 0; i < features; ++i) sum += values[i] * y[i];
      for (std::size_t i = 0; i < features; ++i) values[i] = y[i] * (values[i] - sum);
    }
  }
  return {{forward ? "dst" : "diff_src", std::move(result)}};
}

}  // namespace forecost
