#pragma once

#include <functional>
#include <optional>
#include <string>

namespace forecost {

/// What the environment tells of how this process was started, before MPI is touched.
struct Launch {
  /// Started by mpirun, or by srun with a process-management interface: MPI_Init finds its peers.
  /// Without it MPI_Init would be slow (it looks for a daemon) and give one rank anyway.
  bool has_peers = false;
  /// Tasks of the Slurm step that this process is one of; nullopt outside a step, or where the step
  /// holds only mpirun's daemons.
  std::optional<int> slurm_tasks;
  /// Ranks that a launcher other than Slurm announces.
  std::optional<int> announced_ranks;
};

using Environ = std::function<const char*(const char* name)>;  ///< std::getenv, or a test's

Launch read_launch(const Environ& environment);

/// Throws EnvironmentError if Slurm started another number of tasks than the world has ranks: N
/// worlds of one rank would each do all the work.
void check_world_size(const Launch& launch, int world_size);

/// This host's name, as MPI-less code sees it.
std::string host_name();

}  // namespace forecost
