#include "collect/backends/cpu/host_state.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "core/units.hpp"

namespace forecost::cpu {
namespace {

namespace fs = std::filesystem;

/// The first word of a file; empty if there is none.
std::string word_of(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

/// "0-3,8": the numbers of a list as the kernel writes it.
std::vector<int> list_of(const std::string& text) {
  std::vector<int> numbers;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    int first = 0, last = 0;
    char dash = 0;
    std::istringstream range(part);
    if (!(range >> first)) continue;
    if (!(range >> dash >> last)) last = first;
    for (int number = first; number <= last; ++number) numbers.push_back(number);
  }
  return numbers;
}

/// The reverse, of ascending numbers.
std::string text_of(std::span<const int> numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += fmt::format("{}", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

/// In clock ticks since boot.
struct Ticks {
  double busy = 0, all = 0, stolen = 0;
};

/// By processor, of /proc/stat.
std::map<int, Ticks> read_ticks(const fs::path& root) {
  std::map<int, Ticks> ticks;
  std::ifstream in(root / "proc/stat");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("cpu") || line.starts_with("cpu ")) continue;
    std::istringstream words(line.substr(3));
    int processor = 0;
    double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, softirq = 0, steal = 0;
    words >> processor >> user >> nice >> system >> idle >> wait >> irq >> softirq >> steal;
    const double busy = user + nice + system + irq + softirq;
    ticks[processor] = {busy, busy + idle + wait + steal, steal};
  }
  return ticks;
}

double busy_share(const std::map<int, Ticks>& before, const std::map<int, Ticks>& after,
                  const std::function<bool(int)>& counts) {
  double busy = 0, all = 0;
  for (const auto& [processor, now] : after) {
    const auto then = before.find(processor);
    if (then == before.end() || !counts(processor)) continue;
    busy += now.busy - then->second.busy;
    all += now.all - then->second.all;
  }
  return all > 0 ? busy / all : 0;
}

bool has_hypervisor(const fs::path& root) {
  if (fs::exists(root / "sys/hypervisor/type")) return true;
  std::ifstream in(root / "proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("flags")) return line.find(" hypervisor") != std::string::npos;
  }
  return false;
}

std::optional<bool> read_turbo(const fs::path& processors) {
  if (const auto off = word_of(processors / "intel_pstate/no_turbo"); !off.empty()) {
    return off == "0";
  }
  if (const auto on = word_of(processors / "cpufreq/boost"); !on.empty()) return on == "1";
  return std::nullopt;
}

/// The quota of processors; 0 without one.
double read_quota(const fs::path& root) {
  std::ifstream in(root / "sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;  // "max" is no number
  return in >> quota >> period && period > 0 ? quota / period : 0;
}

}  // namespace

HostState watch_host(const fs::path& root, std::span<const int> device,
                     const std::function<void()>& moment) {
  const fs::path processors = root / "sys/devices/system/cpu";
  const auto folder = [&](int processor) { return processors / fmt::format("cpu{}", processor); };
  HostState host;
  host.device.assign(device.begin(), device.end());
  const std::set<int> own(device.begin(), device.end());
  std::set<int> siblings;
  for (const int processor : device) {
    for (const int other : list_of(word_of(folder(processor) / "topology/thread_siblings_list"))) {
      if (!own.contains(other)) siblings.insert(other);
    }
    if (const auto governor = word_of(folder(processor) / "cpufreq/scaling_governor");
        !governor.empty()) {
      host.governors[governor].push_back(processor);
    }
  }
  host.siblings.assign(siblings.begin(), siblings.end());
  host.turbo = read_turbo(processors);
  host.virtual_machine = has_hypervisor(root);
  host.quota = read_quota(root);
  std::istringstream(word_of(root / "proc/loadavg")) >> host.load_average;

  const auto before = read_ticks(root);
  moment();
  const auto after = read_ticks(root);
  host.online = static_cast<int>(after.size());
  double stolen = 0, all = 0;
  for (const auto& [processor, ticks] : after) {
    stolen += ticks.stolen;
    all += ticks.all;
  }
  host.stolen = all > 0 ? stolen / all : 0;
  host.device_busy = busy_share(before, after, [&](int p) { return own.contains(p); });
  host.siblings_busy = busy_share(before, after, [&](int p) { return siblings.contains(p); });
  host.others_busy =
      busy_share(before, after, [&](int p) { return !own.contains(p) && !siblings.contains(p); });
  return host;
}

std::vector<std::string> warnings_of(const HostState& host) {
  // A tick of the clock is 2 % of the moment on one processor, and no host is quite idle.
  constexpr double busy = 0.1;
  std::vector<std::string> lines;
  const auto warn = [&](std::string line) { lines.push_back(std::move(line)); };
  const auto percent = [](double share) { return format_percent(share, 0); };

  for (const auto& [governor, processors] : host.governors) {
    if (governor == "performance") continue;
    warn(
        fmt::format("processors {}: their frequency governor is {}, so that clocks follow the "
                    "load; set performance (cpupower frequency-set -g performance, srun "
                    "--cpu-freq=Performance)",
                    text_of(processors), governor));
  }
  if (host.turbo.value_or(false)) {
    warn(
        "turbo is on, so that clocks change with temperature and with how many cores are busy; "
        "switch it off where times must repeat (cpupower set --turbo-boost 0), or see in forecost "
        "probe what they vary by");
  }
  if (!host.siblings.empty()) {
    warn(
        fmt::format("processors {}: second hardware threads of the device's cores, {} busy; what "
                    "runs there shares their units: keep them idle (srun --hint=nomultithread) or "
                    "switch them off (/sys/devices/system/cpu/smt/control)",
                    text_of(host.siblings), percent(host.siblings_busy)));
  }
  const bool loaded = host.device_busy > busy;
  if (loaded) {
    warn(
        fmt::format("processors {}: {} busy with other work, load average {:.1f}; end it, or ask "
                    "for a node of your own (sbatch --exclusive)",
                    text_of(host.device), percent(host.device_busy), host.load_average));
  }
  if (host.others_busy > busy) {
    warn(
        fmt::format("the host's other processors: {} busy, load average {:.1f}; they share caches "
                    "and memory with the device: end that work, or ask for a node of your own "
                    "(sbatch --exclusive)",
                    percent(host.others_busy), host.load_average));
  } else if (!loaded && host.load_average >= std::max(1, host.online)) {
    warn(
        fmt::format("the load average is {:.1f} on {}, though idle just now: wait until the host "
                    "is quiet",
                    host.load_average, format_counted(host.online, "processor")));
  }
  if (host.quota > 0 && host.quota < static_cast<double>(host.device.size())) {
    warn(fmt::format(
        "this process may use {:.2f} processors' time (its cgroup's cpu.max), and its "
        "device has {}: it will be stopped again and again; raise the limit, or take "
        "fewer (--cores)",
        host.quota, host.device.size()));
  }
  // Less would be told as 0.0 %.
  constexpr double least_stolen = 0.0005;
  if (host.virtual_machine && host.stolen >= least_stolen) {
    warn(
        fmt::format("this is a virtual machine, {} of whose time was stolen since its start: what "
                    "its neighbours do shows in the times; prefer a host of your own, and compare "
                    "two runs of forecost probe",
                    format_percent(host.stolen)));
  }
  // The most that a CPU has had is 48 MiB for each core (AMD EPYC 9184X: 768 MiB, 16 cores).
  constexpr double most_per_core = 64.0 * 1024 * 1024;
  if (host.llc_bytes > most_per_core * host.llc_cores) {
    warn(
        fmt::format("the last-level cache is told to be {} for {}, which no CPU has: "
                    "go by what forecost probe finds (probed_cache_bytes)",
                    format_bytes(host.llc_bytes), format_counted(host.llc_cores, "core")));
  } else if (host.llc_bytes <= 0) {
    warn("this host tells no cache sizes: go by what forecost probe finds (probed_cache_bytes)");
  }
  return lines;
}

std::string pinning_warning(std::span<const int> bound, std::span<const int> device, int ranks) {
  if (bound.size() <= device.size()) return {};
  std::vector<int> sorted(device.begin(), device.end());
  std::sort(sorted.begin(), sorted.end());
  return fmt::format(
      "this {} may run on {}, and its device is {} of them ({}): its threads are pinned, "
      "what "
      "else it starts is not; bind it ({})",
      ranks > 1 ? "rank" : "process", format_counted(bound.size(), "core"), sorted.size(),
      text_of(sorted),
      ranks > 1
          ? fmt::format("mpirun --bind-to core --map-by slot:PE={0}, srun --cpus-per-task={0} "
                        "--cpu-bind=cores",
                        sorted.size())
          : fmt::format("taskset -c {}, srun --cpus-per-task={} --cpu-bind=cores", text_of(sorted),
                        sorted.size()));
}

}  // namespace forecost::cpu
