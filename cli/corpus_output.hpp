#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "cli/verb.hpp"
#include "data/corpus/merge.hpp"

// What the subcommands share that add to a corpus.

namespace forecost::cli {

/// --on-conflict POLICY.
void add_on_conflict(po::options_description& options);
OnConflict on_conflict_of(const po::variables_map& values);

/// merge_into_file() and what it has to say: the rows on stdout, settled conflicts as a warning.
/// Throws DataError after it has listed conflicts that were refused, EnvironmentError where another
/// merge did not end.
MergeOutcome add_to_corpus(const std::filesystem::path& output, std::string_view what,
                           const std::function<void(Merger&)>& inputs, const MergeOptions& options);

}  // namespace forecost::cli
