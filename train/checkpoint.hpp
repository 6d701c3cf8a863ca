#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "train/ensemble_trainer.hpp"

namespace forecost {

/// The states of all parts of a model in training, by the name of their schema.
struct Checkpoint {
  std::string identity;  ///< of data, options and seed: a checkpoint continues nothing else
  std::map<std::string, EnsembleState> parts;
};

/// DIR/checkpoint.h5 and its digest, replaced atomically. Throws EnvironmentError.
void save_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& directory);
/// nullopt if there is none. Throws DataError if it is corrupt or of another identity.
std::optional<Checkpoint> load_checkpoint(const std::filesystem::path& directory,
                                          const std::string& identity);

}  // namespace forecost
