#include "data/operators/embedding.hpp"

#include "collect/reference/references.hpp"

namespace forecost {

Operands embedding_reference(const Task& task, const Operands& operands) {
  const EmbeddingShape s = embedding_shape(task.layer);
  const auto features = static_cast<std::size_t>(s.features);
  const auto& ids = operands.at("ids");
  const bool forward = task.pass == Pass::forward;
  std::vector<double> result(forward ? ids.size() * features
                                     : static_cast<std::size_t>(s.entries) * features);
  const auto& from = operands.at(forward ? "weights" : "diff_dst");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    for (std::size_t f = 0; f < features; ++f) {
      const std::size_t row = i * features + f,
                        entry = static_cast<std::size_t>(ids[i]) * features + f;
      forward ? result[row] = from[entry] : result[entry] += from[row];
    }
  }
  return {{forward ? "dst" : "diff_weights", std::move(result)}};
}

}  // namespace forecost
