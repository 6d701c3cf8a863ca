#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "data/corpus/corpus.hpp"

namespace forecost {

/// Merges corpora into one by the rules of merge_into, with one index for all of them.
class Merger {
 public:
  /// Starts with what `into` holds, itself merged. `into` outlives the merger and must not be
  /// changed by others meanwhile.
  explicit Merger(Corpus& into);
  void add(const Corpus& from);
  /// Drops the failures that an ok row supersedes; returns the conflicts, one line each.
  std::vector<std::string> finish();

 private:
  void add(const Device& device);
  void add(const Measurement& row);

  Corpus& into_;
  std::unordered_map<std::string, std::size_t> devices_, runs_, rows_;
  std::unordered_set<std::string> environments_, sweeps_;
  std::vector<std::string> conflicts_;
};

/// RUN_DIR/runs/*/journal-*, sorted; throws EnvironmentError.
std::vector<std::filesystem::path> journals_of(const std::filesystem::path& run_directory);

/// "TIME forecost VERSION: what", for Corpus::history.
std::string history_line(std::string_view what);

}  // namespace forecost
