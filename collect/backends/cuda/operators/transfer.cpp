#include "data/operators/transfer.hpp"

#include "collect/backends/cuda/primitives.hpp"
#include "collect/backends/cuda/recipe.hpp"

namespace forecost::cuda {

void describe_transfer(Recipe& recipe, const Task& task) {
  const TransferShape s = transfer_shape(task.layer);
  const auto values = recipe.plain(s.batch * s.features);
  const auto from = recipe.input("src", values), to = recipe.result("dst", values);
  if (s.direction == TransferDirection::host_to_device) recipe.keep_on_host(from, s.pinned);
  if (s.direction == TransferDirection::device_to_host) recipe.keep_on_host(to, s.pinned);
  recipe.run(primitive(Copy{bytes_of(values)}), {from, to});
}

}  // namespace forecost::cuda
