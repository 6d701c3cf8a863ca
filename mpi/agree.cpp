#include "mpi/agree.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace forecost {

void agree(const World& world, const std::function<void()>& step) {
  std::string failure;  // the exit code as one character, then the message
  try {
    step();
  } catch (const std::exception& error) {
    failure = static_cast<char>(exit_code_of(error));
    failure += error.what();
  }
  const auto all = world.all_gather(failure);
  const auto failed =
      std::find_if(all.begin(), all.end(), [](const auto& f) { return !f.empty(); });
  if (failed == all.end()) return;
  const auto message = failed->substr(1);
  const auto rank = failed - all.begin();
  // What is wrong everywhere, or on the rank that speaks, needs no rank.
  throw AgreedError(static_cast<ExitCode>(failed->front()),
                    rank == 0 ? message : fmt::format("rank {}: {}", rank, message));
}

}  // namespace forecost
