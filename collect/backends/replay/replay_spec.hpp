#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace forecost {

/// What one replayed device does besides answering; shares are of tasks, drawn by the task's text
/// and the device class, so that a rerun meets the same faults on any number of ranks.
struct ReplayFaults {
  double noise = 0.01;     ///< relative standard deviation of a sample
  double fail = 0;         ///< share of tasks whose preparation fails
  double unsupported = 0;  ///< share that is refused as unsupported
  double oom = 0;          ///< share for which the device has no memory
  double nonfinite = 0;    ///< share whose result is not finite
  double throttle = 0;     ///< share whose runs are throttled:
  double throttled_runs = std::numeric_limits<double>::infinity();  ///< the first so many of them
  /// Share of measurements, drawn anew when a task is measured again, beside which another program
  /// runs: it takes half of the time.
  double shared = 0;
  double first_run_s = 0;  ///< one-off cost of the first run of each task, seconds
  double slow_runs = 0;    ///< the first so many runs take from 2 to 1 times as long, evenly
  double drift = 0;        ///< how much slower the device gets in an hour of its clock
  double poison = 0;       ///< share after which the device answers nothing any more
  double kill = 0;         ///< share that kills its process (SIGKILL) whenever it is measured
  /// Chance that any task kills this process, drawn anew by each process.
  double crash = 0;
  double real_delay_s = 0;  ///< real sleep per task, so that a test can hit a run in the middle
  double real_probe_s = 0;  ///< the same of the probe, in rounds of a tenth of a second
};

/// One entry of --replay: "v100", "v100:noise=0.05:fail=0.1", "corpus.h5", "run", or "none".
struct ReplayEntry {
  std::string source;  ///< shipped device, device TOML, corpus, run directory; "": built-in device
  ReplayFaults faults;
};

/// Comma-separated entries; an empty text is one built-in device, and so is an entry that only has
/// options (":noise=0"). Throws UsageError that lists the known options.
std::vector<ReplayEntry> parse_replay(std::string_view text);

}  // namespace forecost
