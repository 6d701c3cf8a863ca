#pragma once

#include <chrono>
#include <filesystem>
#include <iosfwd>
#include <limits>
#include <set>
#include <string>

#include "collect/measurer.hpp"
#include "collect/run_directory.hpp"
#include "core/error.hpp"
#include "data/measurement.hpp"
#include "mpi/world.hpp"

namespace forecost {

/// What the processes before this one did of the same launch, each of which its device put an end
/// to.
struct SoFar {
  int fruitless = 0;          ///< so many of them, the last ones, ended after a few tasks
  std::int64_t measured = 0;  ///< tasks
  double wall_s = 0;          ///< measuring
  Duty duty;

  std::string text() const;  ///< one line
  /// Of text(); nothing of another one.
  static SoFar of(const std::string& text);
};

struct CollectOptions {
  std::string sweep;  ///< a shipped name or a file
  std::filesystem::path run_directory;
  std::set<Status> retry;  ///< of earlier launches: to be measured again
  std::string backend = "auto";
  std::string replay;
  int cores = 0;                   ///< 0: those that the rank is bound to
  std::string layout;              ///< of images on a GPU: nchw, nhwc, or empty for the default
  bool dedicated_manager = false;  ///< rank 0 gets no device: it hands out work and merges
  Shard shard;
  bool resume = false;
  double time_limit_s = std::numeric_limits<double>::infinity();  ///< from `began`, set-up included
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  double budget_device_s = std::numeric_limits<double>::infinity();  ///< over all devices
  double merge_interval_s = 60;  ///< between merges during the run
  std::string resume_command;    ///< told when the run stops early
  SoFar so_far;
};

struct CollectResult {
  ExitCode code;
  /// The device answers nothing any more and there are no other ranks: a new process would go on.
  /// Nothing was written to `out`, and corpus.h5 is not up to date.
  bool restart = false;
  SoFar so_far;         ///< for that process
  double device_s = 0;  ///< spent of the budget
};

/// Measures what the sweep lists on every device class of the world, and leaves the result in
/// RUN_DIR/corpus.h5. All ranks call it; all return the same result (done, failures, stopped). Rank
/// 0 writes the closing lines to `out`. What goes wrong before measuring begins is an AgreedError;
/// later errors leave one rank alone, so the caller has to abort the world.
CollectResult collect(const World& world, const CollectOptions& options, std::ostream& out);

/// --plan-only: counts per operator and pass, what is skipped and why, and the expected hours on
/// each device class of the world (with --replay: of all that it lists).
void show_plan(const World& world, const CollectOptions& options, std::ostream& out);

}  // namespace forecost
