#include "collect/reference/references.hpp"

namespace forecost {

Operands dropout_reference(const Task& task, const Operands& operands) {
  const bool forward = task.pass == Pass::forward;
  const auto& mask = operands.at("mask");
  std::vector<double> result = operands.at(forward ? "src" : "diff_dst");
  for (std::size_t i = 0; i < result.size(); ++i) result[i] *= mask[i] / 0.9;
  return {{forward ? "dst" : "diff_src", std::move(result)}};
}

}  // namespace forecost
