#include "collect/backend.hpp"

#include <sys/utsname.h>

#include <fmt/format.h>

#include "core/version.hpp"
#include "data/layer.hpp"

namespace forecost {

std::optional<std::string> no_measurable_task(const Task& task, std::string_view backend,
                                              bool has_operator) {
  const Operator& op = task.layer.op();
  if (!op.has(task.pass)) return fmt::format("{} has no pass {}", op.name, name_of(task.pass));
  if (task.pass == Pass::training_step) {
    return fmt::format("the {} backend measures the passes of {} apart, not as {}", backend,
                       op.name, name_of(task.pass));
  }
  if (task.pass != Pass::update && !has_operator) {
    return fmt::format("the {} backend has no operator {}", backend, op.name);
  }
  if (task.cache == CacheState::unknown) return "the cache state is cold or hot";
  if ((task.pass == Pass::update) != (task.optimizer != Optimizer::none)) {
    return "an optimizer belongs to the pass update, and to no other";
  }
  return std::nullopt;
}

Environment measuring_environment(std::string_view backend) {
  Environment environment;
  auto& facts = environment.facts;
  facts["forecost"] = version;
  facts["backend"] = backend;
  facts["operands"] = "seeded uniform values, uniform indices";
  facts["compiler"] = __VERSION__;
  utsname system{};
  if (uname(&system) == 0) {
    facts["kernel"] = fmt::format("{} {}", system.sysname, system.release);
    facts["host"] = system.nodename;
  }
  return environment;
}

}  // namespace forecost
