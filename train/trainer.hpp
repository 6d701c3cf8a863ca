#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mpi/collective.hpp"
#include "train/dataset.hpp"
#include "train/model/model.hpp"
#include "train/step_engine.hpp"

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
  /// Of the ranks that share the steps of a network.
  CollectiveFactory group = [](const World& world, const std::vector<int>& ranks,
                               double timeout_s) {
    return make_collective(world, ranks, timeout_s);
  };
  /// Ranks that share the steps of one network; it divides the world. 0: as few as keep all busy.
  int ranks_per_model = 0;
  /// After how long a rank that does not answer is presumed dead. More than an epoch takes.
  double collective_timeout_s = default_collective_timeout_s;
};

struct TrainProgress {
  std::int64_t done, epochs;  ///< of all networks of all groups together
  std::string part;           ///< that this rank's group trains; "" when it is done
  double loss;                ///< of its last epoch, this rank's share
};

/// Trains one ensemble for each feature schema of the preset that has rows. The networks are dealt
/// to groups of ranks, which train them side by side. Every rank calls it with the same dataset and
/// options and gets the same model. nullopt if a stop was asked for: the checkpoint, if there is a
/// directory for it, then holds all that was done.
///
/// Throws DataError for too few rows, for a checkpoint of other data or options, and for a
/// divergence; UsageError for a held-out class that has no rows, and for ranks that cannot be
/// grouped; RankLost.
std::optional<Model> train_model(const Dataset& data, const TrainOptions& options,
                                 const World& world,
                                 const std::function<void(const TrainProgress&)>& watch);
/// The same of several models at once: one without each of these classes, whatever holdout_classes
/// says. Networks of all models are dealt to the groups.
std::optional<std::vector<Model>> train_models_without(
    std::span<const std::string> classes, const Dataset& data, const TrainOptions& options,
    const World& world, const std::function<void(const TrainProgress&)>& watch);

/// Examples of the split, rows of held-out classes apart.
std::vector<Example> examples_of(const Dataset& data, const Model& model, Split split);

}  // namespace forecost
