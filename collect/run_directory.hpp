#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "collect/sweep.hpp"
#include "core/file.hpp"

namespace forecost {

/// The part of a sweep that this launch does: task k belongs to shard k mod count.
struct Shard {
  int index = 1, count = 1;  ///< 1-based
  std::string text() const;  ///< "2of8"
  /// Whether a task may be in both.
  bool overlaps(const Shard& other) const;
};

struct OpenedRun {
  std::string id;
  /// Until the ranks of this launch can be seen by living_ranks().
  FileLock beginning;
};

/// Checks RUN_DIR, creates what is missing, and opens a new folder for this launch:
/// RUN_DIR/runs/ID, with an ID that no earlier launch had ("<job>-<shard>"). Called on one rank;
/// `classes` are the device classes of this launch.
/// Throws
/// - UsageError: RUN_DIR is in use and `resume` was not asked for (other shards of the same sweep
///   may be in it), or holds something else than runs, or a living launch has the same tasks for
///   one of the classes;
/// - DataError: it holds another sweep;
/// - EnvironmentError: it cannot be created, written, renamed or deleted in.
OpenedRun open_run(const std::filesystem::path& directory, const Plan& plan, const Shard& shard,
                   bool resume, const std::set<std::string>& classes);

/// RUN_DIR/runs/ID.
std::filesystem::path run_folder(const std::filesystem::path& directory, const std::string& id);

}  // namespace forecost
