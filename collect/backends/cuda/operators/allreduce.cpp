#include "data/operators/allreduce.hpp"

#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

namespace forecost::cuda {

// Out of place, so that the operand of each run is the same.
void describe_allreduce(Recipe& recipe, const Task& task, Communicator* communicator) {
  const std::int64_t elements = allreduce_shape(task.layer).elements;
  const auto values = recipe.plain(elements);
  const auto from = recipe.input("src", values), to = recipe.result("dst", values);
  recipe.run(primitive(AllReduce{communicator, recipe.element(), elements}), {from, to});
}

}  // namespace forecost::cuda
