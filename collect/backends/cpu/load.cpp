#include "collect/backends/cpu/load.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>

namespace forecost::cpu {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// Of the calling thread: seconds that it was ready to run while another one ran. The second number
/// of schedstat (Documentation/scheduler/sched-stats.rst of the kernel), in nanoseconds.
double waited_s() {
  std::ifstream file("/proc/thread-self/schedstat");
  double ran_ns = 0, waited_ns = 0;
  return file >> ran_ns >> waited_ns ? 1e-9 * waited_ns : nan;
}

/// Seconds stolen from each core: the eighth number of its line in /proc/stat, in clock ticks.
std::map<int, double> stolen_s() {
  std::map<int, double> stolen;
  const auto tick_s = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (!name.starts_with("cpu") || name == "cpu") continue;
    double ticks = 0;
    for (int i = 0; i < 8; ++i) words >> ticks;
    if (words) stolen[std::stoi(name.substr(3))] = ticks * tick_s;
  }
  return stolen;
}

}  // namespace

Load::Books Load::read() const {
  Books books;
  books.waited_s.resize(cores_.size(), nan);
  books.stolen_s.resize(cores_.size());
  const auto stolen = stolen_s();
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    if (const auto found = stolen.find(cores_[i]); found != stolen.end()) {
      books.stolen_s[i] = found->second;
    }
  }
#pragma omp parallel num_threads(static_cast <int>(cores_.size()))
  books.waited_s[static_cast<std::size_t>(omp_get_thread_num())] = waited_s();
  books.time = std::chrono::steady_clock::now();
  return books;
}

double Load::lost_share() const {
  const Books now = read();
  // Steal is booked in whole ticks of 10 ms: one or two may be a tick's worth of bad luck.
  const double least_steal_s = 3.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  double lost_s = 0;
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    const double stolen = now.stolen_s[i] - before_.stolen_s[i];
    lost_s = std::max(
        lost_s, now.waited_s[i] - before_.waited_s[i] + (stolen >= least_steal_s ? stolen : 0));
  }
  const double elapsed_s = std::chrono::duration<double>(now.time - before_.time).count();
  if (now.waited_s.empty() || now.waited_s.front() != now.waited_s.front()) return nan;
  return std::min(1.0, lost_s / elapsed_s);
}

double current_clock_hz(int core) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", core));
  double khz = 0;
  return file >> khz ? 1e3 * khz : nan;
}

}  // namespace forecost::cpu
