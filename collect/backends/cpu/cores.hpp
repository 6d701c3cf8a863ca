#pragma once

#include <span>
#include <string>
#include <vector>

#include "collect/backend.hpp"

namespace forecost::cpu {

/// The cores of a host, as logical CPU numbers (one per core: a second hardware thread of the same
/// core shares its units).
struct HostCores {
  std::vector<int> bound;    ///< those that the launcher bound this process to
  std::vector<int> allowed;  ///< those that the process may use at all (cgroup)
};

/// The cores of this rank's device; empty where there are fewer devices than ranks on the host.
/// With one rank more than devices it is local rank 0 that goes without, since it is the manager.
///
/// Ranks with bindings of their own (mpirun -n 2, srun --cpu-bind) use the first `cores` of theirs,
/// or all. Otherwise the allowed cores are dealt out in order of local rank, `cores` each, or
/// evenly. Throws EnvironmentError if not even one device has that many cores.
std::vector<int> choose_cores(const HostCores& host, const DeviceRequest& request);

/// Read from hwloc.
struct Topology {
  HostCores cores;
  std::string model, vendor;
  double llc_bytes;   ///< 0 if unknown
  int llc_cores = 1;  ///< that share it
  std::string machine_id;
  double memory_bytes, clock_hz;  ///< 0 if unknown
};
Topology read_topology();

/// Bytes that the system can still give.
double available_memory_bytes();

/// Ties this thread and the OpenMP team it leads to the cores, one thread on each, and gives the
/// affinity back in the end.
class PinnedTeam {
 public:
  explicit PinnedTeam(std::vector<int> cores);
  ~PinnedTeam();
  PinnedTeam(const PinnedTeam&) = delete;
  PinnedTeam& operator=(const PinnedTeam&) = delete;
  const std::vector<int>& cores() const { return cores_; }

 private:
  std::vector<int> cores_, before_;
  int threads_before_;
};

}  // namespace forecost::cpu
