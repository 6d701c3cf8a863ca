#include "data/operators/allreduce.hpp"
#include "collect/backend.hpp"
#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"
#include "mpi/gang.hpp"

// A sum over the members of a gang, by MPI. Out of place, so that the operand of each run is the
// same; a gradient would be summed in place, which saves MPI the copy of its own part.

namespace forecost::cpu {

void describe_allreduce(Recipe& recipe, const Task& task, Gang& gang) {
  if (task.dtype != DType::f32) {
    throw CaseRefused(Status::unsupported, "MPI adds f32, not bf16");
  }
  const dnnl::memory::desc layout =
      plain({allreduce_shape(task.layer).elements}, dnnl::memory::data_type::f32);
  const auto from = recipe.input("src", layout), to = recipe.result("dst", layout);
  const auto n = static_cast<std::size_t>(allreduce_shape(task.layer).elements);
  recipe.run({"mpi:allreduce", 0, [=, &gang](const Bound& bound) {
                const std::span<const float> operand(bound.data<float>(from), n);
                const std::span<float> sum(bound.data<float>(to), n);
                return [=, &gang] { gang.all_reduce(operand, sum); };
              }});
}

}  // namespace forecost::cpu
