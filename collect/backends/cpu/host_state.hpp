#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace forecost::cpu {

/// What there is to know of a host that makes timings on some of its processors doubtful. All
/// processors are logical CPU numbers, ascending; shares are fractions of 1.
struct HostState {
  std::vector<int> device;                            ///< the processors that are measured on
  std::vector<int> siblings;                          ///< online hardware threads of the same cores
  int online = 0;                                     ///< processors of the host
  std::map<std::string, std::vector<int>> governors;  ///< of the device, where clocks can be scaled
  std::optional<bool> turbo;                          ///< where the kernel tells
  bool virtual_machine = false;
  double quota = 0;         ///< of processors, by the process's cgroup; 0: unlimited
  double load_average = 0;  ///< of the last minute
  double stolen = 0;        ///< share of the host's time since boot that the hypervisor took

  // Over a moment:
  double device_busy = 0, siblings_busy = 0, others_busy = 0;

  // Of hwloc, which also asks the CPU itself:
  double llc_bytes = 0;  ///< 0 if nobody tells
  int llc_cores = 1;     ///< cores that share it
};

/// Reads `root`/sys and `root`/proc, calls `moment` (a short sleep) and reads the load again. What
/// is not there is left as it is above, and the caches are the caller's to tell.
HostState watch_host(const std::filesystem::path& root, std::span<const int> device,
                     const std::function<void()>& moment);

/// One line for each thing that makes timings doubtful, and what to do about it.
std::vector<std::string> warnings_of(const HostState& host);

/// The same of a process whose device is some of the cores that it is bound to, so that the kernel
/// may run it elsewhere too; empty if it is bound to its device. `ranks` are those of this host.
std::string pinning_warning(std::span<const int> bound, std::span<const int> device, int ranks);

}  // namespace forecost::cpu
