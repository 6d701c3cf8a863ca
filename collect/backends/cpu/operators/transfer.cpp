#include "data/operators/transfer.hpp"

#include <cstring>

#include "collect/backend.hpp"
#include "collect/backends/cpu/kernels.hpp"
#include "collect/backends/cpu/primitives.hpp"
#include "collect/backends/cpu/recipe.hpp"

namespace forecost::cpu {

void describe_transfer(Recipe& recipe, const Task& task) {
  const TransferShape s = transfer_shape(task.layer);
  if (s.direction != TransferDirection::device_to_device) {
    throw CaseRefused(Status::unsupported,
                      "a CPU's memory is the host's; measured as direction=device_to_device");
  }
  const dnnl::memory::desc values = plain({s.batch * s.features}, data_type_of(task.dtype));
  const auto from = recipe.input("src", values), to = recipe.result("dst", values);
  recipe.run(own_code("memcpy", [=, bytes = values.get_size()](const Bound& bound) {
    const auto* source = bound.data<const std::byte>(from);
    auto* destination = bound.data<std::byte>(to);
    return [=] {
      split(bytes, grain_elements * sizeof(float), 64,
            [&](std::size_t, std::size_t begin, std::size_t end) {
              std::memcpy(destination + begin, source + begin, end - begin);
            });
    };
  }));
}

}  // namespace forecost::cpu
