#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "collect/sweep.hpp"

namespace forecost {

/// The part of a sweep that this launch does: task k belongs to shard k mod count.
struct Shard {
  int index = 1, count = 1;  ///< 1-based
  std::string text() const;  ///< "2of8"
};

/// Checks RUN_DIR, creates what is missing, and opens a new folder for this launch:
/// RUN_DIR/runs/ID, with an ID that no earlier launch had ("<job>-<shard>"). Called on one rank.
/// Throws
/// - UsageError: RUN_DIR is in use and `resume` was not asked for (other shards of the same sweep
///   may be in it), or holds something else than runs;
/// - DataError: it holds another sweep;
/// - EnvironmentError: it cannot be created, written, renamed or deleted in.
/// Returns the ID.
std::string open_run(const std::filesystem::path& directory, const Plan& plan, const Shard& shard,
                     bool resume);

/// RUN_DIR/runs/ID.
std::filesystem::path run_folder(const std::filesystem::path& directory, const std::string& id);

/// Merges the journals into RUN_DIR/corpus.h5; one merge of a directory at a time, also where many
/// jobs share it. With `wait` false it returns at once, having done nothing, if another job is at
/// it. Returns the conflicts: if there are any, corpus.h5 stays as it was.
std::vector<std::string> merge_run(const std::filesystem::path& directory, bool wait);

}  // namespace forecost
