#include "collect/backends/cpu/cores.hpp"

#include <hwloc.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/units.hpp"

namespace forecost::cpu {
namespace {

std::string first_line(const char* file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// The value of "key : value" or "key: value kB" in a file of /proc; empty if there is none.
std::string proc_value(const char* file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos
               ? ""
               : line.substr(begin, line.find_last_not_of(" \t") - begin + 1);
  }
  return {};
}

double number(const std::string& text) {
  double value = 0;
  std::istringstream(text) >> value;
  return value;
}

void bind_this_thread(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  // A cgroup that changed meanwhile makes this fail; the samples then show it, as noise.
  (void)sched_setaffinity(0, sizeof set, &set);
}

std::vector<int> affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

/// The first logical CPU of each core that the set has.
std::vector<int> one_per_core(hwloc_topology_t topology, hwloc_const_bitmap_t set) {
  std::vector<int> cpus;
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr) {
    hwloc_bitmap_t usable = hwloc_bitmap_dup(core->cpuset);
    hwloc_bitmap_and(usable, usable, set);
    if (!hwloc_bitmap_iszero(usable)) cpus.push_back(hwloc_bitmap_first(usable));
    hwloc_bitmap_free(usable);
  }
  return cpus;
}

std::vector<int> first_of(const std::vector<int>& cpus, std::size_t count, std::size_t from = 0) {
  const auto begin = cpus.begin() + static_cast<std::ptrdiff_t>(from);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

std::vector<int> choose_cores(const HostCores& host, const DeviceRequest& request) {
  const auto ranks = static_cast<std::size_t>(std::max(1, request.local_size));
  const auto rank = static_cast<std::size_t>(request.local_rank);
  const auto wanted = static_cast<std::size_t>(std::max(0, request.cores));
  const bool own_binding = ranks == 1 || host.bound.size() * ranks <= host.allowed.size();
  if (own_binding && wanted <= host.bound.size()) {
    return first_of(host.bound, wanted == 0 ? host.bound.size() : wanted);
  }
  // One process alone is where its user put it; among several, only the launcher's default is
  // overruled by --cores.
  const std::vector<int>& pool = ranks == 1 ? host.bound : host.allowed;
  const std::size_t cores = wanted == 0 ? std::max<std::size_t>(1, pool.size() / ranks) : wanted;
  const std::size_t devices = pool.size() / cores;
  if (devices == 0) {
    throw EnvironmentError(fmt::format("--cores {}: this process may use {}; ask for fewer", cores,
                                       format_counted(pool.size(), "core")));
  }
  const std::size_t without = ranks == devices + 1 ? 1 : 0;
  if (rank < without || rank - without >= devices) return {};
  return first_of(pool, cores, (rank - without) * cores);
}

Topology read_topology() {
  Topology found{};
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0 || hwloc_topology_load(topology) != 0) {
    throw EnvironmentError("hwloc could not read this host's topology");
  }
  hwloc_bitmap_t bound = hwloc_bitmap_alloc();
  for (const int cpu : affinity()) hwloc_bitmap_set(bound, static_cast<unsigned>(cpu));
  found.cores.bound = one_per_core(topology, bound);
  found.cores.allowed = one_per_core(topology, hwloc_topology_get_allowed_cpuset(topology));
  hwloc_bitmap_free(bound);
  for (const hwloc_obj_type_t level : {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE}) {
    const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, level, 0);
    if (cache == nullptr) continue;
    found.llc_bytes = static_cast<double>(cache->attr->cache.size);
    found.llc_cores =
        hwloc_get_nbobjs_inside_cpuset_by_type(topology, cache->cpuset, HWLOC_OBJ_CORE);
    break;
  }
  hwloc_topology_destroy(topology);
  if (found.cores.bound.empty()) throw EnvironmentError("this process is bound to no core");

  found.model = proc_value("/proc/cpuinfo", "model name");
  if (found.model.empty()) found.model = "unknown CPU";
  const std::string vendor = proc_value("/proc/cpuinfo", "vendor_id");
  found.vendor = vendor == "AuthenticAMD" ? "AMD" : vendor == "GenuineIntel" ? "Intel" : vendor;
  found.memory_bytes = 1024 * number(proc_value("/proc/meminfo", "MemTotal"));
  found.clock_hz =
      1e3 * number(first_line("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"));
  if (found.clock_hz <= 0) found.clock_hz = 1e6 * number(proc_value("/proc/cpuinfo", "cpu MHz"));
  found.machine_id = first_line("/etc/machine-id");
  return found;
}

double available_memory_bytes() {
  return 1024 * number(proc_value("/proc/meminfo", "MemAvailable"));
}

PinnedTeam::PinnedTeam(std::vector<int> cores)
    : cores_(std::move(cores)), before_(affinity()), threads_before_(omp_get_max_threads()) {
  const int threads = static_cast<int>(cores_.size());
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
#pragma omp parallel num_threads(threads)
  bind_this_thread(std::span(cores_).subspan(static_cast<std::size_t>(omp_get_thread_num()), 1));
}

PinnedTeam::~PinnedTeam() {
#pragma omp parallel num_threads(static_cast <int>(cores_.size()))
  bind_this_thread(before_);
  omp_set_num_threads(threads_before_);
}

}  // namespace forecost::cpu
