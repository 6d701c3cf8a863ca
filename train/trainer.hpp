#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mpi/collective.hpp"
#include "train/dataset.hpp"
#include "train/ensemble_trainer.hpp"
#include "train/model/model.hpp"

namespace forecost {

struct TrainOptions {
  std::string preset = "default";
  std::uint64_t seed = 1;
  Sharing sharing = Sharing::fast;
  std::vector<std::string> holdout_classes;    ///< their rows neither train nor validate
  int epochs = 0;                              ///< of every part; 0: the recipe's own
  std::int64_t batch = 0;                      ///< 0: the recipe's own
  std::filesystem::path checkpoint_directory;  ///< empty: none
  double checkpoint_interval_s = 10;
  bool resume = false;
  EngineFactory engine = make_cpu_engine;
};

struct TrainProgress {
  std::int64_t done, epochs;  ///< of all parts together
  std::string part;           ///< that is being trained
  double loss;                ///< of the last epoch, this rank's share
};

/// Trains one ensemble for each feature schema of the preset that has rows. Every rank calls it
/// with the same dataset and options and gets the same model. nullopt if a stop was asked for: the
/// checkpoint, if there is a directory for it, then holds all that was done.
///
/// Throws DataError for too few rows, for a checkpoint of other data or options, and for a
/// divergence; UsageError for a held-out class that has no rows.
std::optional<Model> train_model(const Dataset& data, const TrainOptions& options,
                                 Collective& collective,
                                 const std::function<void(const TrainProgress&)>& watch);

/// Examples of the split, rows of held-out classes apart.
std::vector<Example> examples_of(const Dataset& data, const Model& model, Split split);

}  // namespace forecost
