#include "mpi/launch.hpp"

#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "core/error.hpp"
#include "core/units.hpp"

namespace forecost {

namespace {

std::optional<int> number(const char* text) {
  if (text == nullptr) return std::nullopt;
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [last, error] = std::from_chars(text, end, value);
  return error == std::errc{} && last == end && value > 0 ? std::optional(value) : std::nullopt;
}

}  // namespace

Launch read_launch(const Environ& environment) {
  Launch launch;
  const auto is_set = [&](const char* name) { return environment(name) != nullptr; };
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"}) {
    if (!launch.announced_ranks) launch.announced_ranks = number(environment(name));
  }
  launch.has_peers = launch.announced_ranks.has_value() || is_set("PMIX_RANK") ||
                     is_set("PMIX_NAMESPACE") || is_set("PMI_RANK") || is_set("PMI_FD");
  if (!is_set("SLURM_STEP_ID")) return launch;

  launch.slurm_tasks = number(environment("SLURM_STEP_NUM_TASKS"));
  if (!launch.slurm_tasks) launch.slurm_tasks = number(environment("SLURM_NTASKS"));
  // mpirun inside a job starts its daemons as a step of one task per node; the ranks inherit that
  // step's variables, which say nothing of them.
  const char* per_node = environment("SLURM_STEP_TASKS_PER_NODE");
  const bool one_per_node = per_node != nullptr && (std::string_view(per_node) == "1" ||
                                                    std::string_view(per_node).starts_with("1("));
  if (is_set("OMPI_COMM_WORLD_SIZE") && one_per_node) launch.slurm_tasks.reset();
  return launch;
}

void check_world_size(const Launch& launch, int world_size) {
  if (!launch.slurm_tasks || *launch.slurm_tasks == world_size) return;
  throw EnvironmentError(fmt::format(
      "the Slurm step has SLURM_NTASKS={} tasks, but the MPI world has {}: start it with "
      "'srun --mpi=pmix' and an MPI of the same PMIx, or use 'srun -n 1'",
      *launch.slurm_tasks, format_counted(world_size, "rank")));
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace forecost
