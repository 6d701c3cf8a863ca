#include <cstdlib>

#include <fmt/format.h>

#include "core/error.hpp"
#include "mpi/launch.hpp"
#include "mpi/world.hpp"

// The world of a program that was built without MPI: one rank.

namespace forecost {

World::World(int& /*argc*/, char**& /*argv*/) : host_(host_name()) {
  const Launch launch = read_launch([](const char* name) { return std::getenv(name); });
  if (launch.announced_ranks.value_or(1) > 1) {
    throw EnvironmentError(
        fmt::format("started as one of {} ranks, but this program was built without MPI: build it "
                    "with FORECOST_MPI=ON, or start one process",
                    *launch.announced_ranks));
  }
  check_world_size(launch, size_);
}

World::~World() = default;

void World::barrier() const {}
std::vector<std::string> World::all_gather(std::string_view text) const {
  return {std::string(text)};
}
std::string World::broadcast(std::string_view text, int /*root*/) const {
  return std::string(text);
}
int World::all_max(int value) const { return value; }
void World::abort(int code) const { std::_Exit(code); }

}  // namespace forecost
