#include <fmt/format.h>

#include <memory>

#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"
#include "collect/backends/cpu/update.hpp"

// One optimizer step over all parameter tensors of a layer, a call for each, whatever the operator.

namespace forecost::cpu {

void describe_update(Recipe& recipe, const Task& task) {
  const dnnl::memory::data_type type = data_type_of(task.dtype);
  const int states = optimizer_cost(task.optimizer).state_tensors;
  struct Ids {
    Recipe::Id parameters, gradient, first, second;
    std::size_t elements;
  };
  std::vector<Ids> tensors;
  for (const std::int64_t elements : task.layer.op().parameter_tensors(task.layer)) {
    const dnnl::memory::desc values = plain({elements}, type),
                             state = plain({elements}, dnnl::memory::data_type::f32);
    const std::string number = fmt::format("_{}", tensors.size());
    Ids ids{};
    ids.elements = static_cast<std::size_t>(elements);
    ids.parameters = recipe.input("weights" + number, values);
    ids.gradient = recipe.input("diff_weights" + number, values, {0.01F});
    if (states > 0) ids.first = recipe.intermediate(state, "first" + number);
    if (states > 1) ids.second = recipe.intermediate(state, "second" + number);
    tensors.push_back(ids);
  }
  recipe.changes_operands();
  recipe.run(own_code(name_of(task.optimizer), [=, optimizer = task.optimizer,
                                                dtype = task.dtype](const Bound& bound) {
    std::vector<ParameterTensor> bound_tensors;
    for (const Ids& ids : tensors) {
      bound_tensors.push_back({.parameters = bound.data<void>(ids.parameters),
                               .gradient = bound.data<void>(ids.gradient),
                               .first = states > 0 ? bound.data<float>(ids.first) : nullptr,
                               .second = states > 1 ? bound.data<float>(ids.second) : nullptr,
                               .elements = ids.elements});
    }
    return [=, step = std::make_shared<std::int64_t>(0)] {
      ++*step;
      for (const ParameterTensor& tensor : bound_tensors) update(optimizer, dtype, tensor, *step);
    };
  }));
}

}  // namespace forecost::cpu
