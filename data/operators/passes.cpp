#include "data/operators/passes.hpp"

namespace forecost {

Work work_of_passes(const Layer& layer, Pass pass, DType dtype, Optimizer optimizer, OwnWork own) {
  if (!layer.op().has(pass)) {
    throw UsageError(std::string(layer.op().name) + " has no pass " + std::string(name_of(pass)));
  }
  if (pass == Pass::update) {
    return update_work(static_cast<double>(layer.parameter_count()), dtype, optimizer);
  }
  if (pass != Pass::training_step) return own(layer, pass, dtype);
  Work sum;
  for (const Pass part : layer.op().passes) {
    if (part != pass) sum = sum + work_of_passes(layer, part, dtype, optimizer, own);
  }
  return sum;
}

std::vector<std::int64_t> no_parameter_tensors(const Layer&) { return {}; }

}  // namespace forecost
