#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "train/step_engine.hpp"

namespace forecost {

// A checkpoint is a directory with one file for each network: whoever trains a network writes its
// file, so that a training can go on with another number of ranks or groups.

/// What the folders begin with that hold the checkpoints of models without a device class.
inline constexpr std::string_view fold_prefix = "fold-";

/// Replaces the file and its digest atomically; its folder is created. `identity` is that of data,
/// options and seed. Throws EnvironmentError.
void save_checkpoint(const EnsembleState& network, const std::string& identity,
                     const std::filesystem::path& file);
/// nullopt if there is none. Throws DataError if it is corrupt or of another identity.
std::optional<EnsembleState> load_checkpoint(const std::string& identity,
                                             const std::filesystem::path& file);
/// Deletes the file and its digest, if they are there. Throws EnvironmentError.
void remove_checkpoint(const std::filesystem::path& file);

/// Throws DataError unless all checkpoints of the directory and its folds' are of one of these
/// identities: a training that went on beside another's files would spoil them for both. Those that
/// are damaged are left to load_checkpoint().
void refuse_other_trainings(const std::filesystem::path& directory,
                            const std::set<std::string>& identities);

}  // namespace forecost
