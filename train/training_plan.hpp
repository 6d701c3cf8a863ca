#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "train/dataset.hpp"
#include "train/model/model.hpp"
#include "train/trainer.hpp"

namespace forecost {

/// One ensemble: the rows, the targets and the recipe's numbers for one schema. Its inputs are made
/// when it is trained, so that many models can wait side by side.
struct TrainingPart {
  SchemaModel model;  ///< all but the networks and the intervals
  std::vector<const Example*> training, validation;
  Floats y;  ///< targets of the training rows
  int epochs = 0;
  std::int64_t batch = 0;
  std::uint64_t seed = 0;

  Floats x() const;  ///< inputs of the training rows, rows x inputs
};

/// A model that is to be trained.
struct TrainingPlan {
  Model model;  ///< all but its parts
  std::vector<TrainingPart> parts;
  std::size_t training_rows = 0;
  std::string title;                  ///< before the names of its parts: "without v100: ", or ""
  std::string identity;               ///< of its checkpoints: they continue nothing else
  std::filesystem::path checkpoints;  ///< their directory; empty: none
};

/// What checkpoints know a dataset by.
std::string identity_of(const Dataset& data);

/// The plan of a model without these classes. Throws what train_model() throws for the data.
TrainingPlan make_training_plan(const Dataset& data, const std::string& data_identity,
                                const TrainOptions& options,
                                const std::vector<std::string>& holdout_classes);

/// The model of a plan whose parts have their networks: with intervals, from rows that trained
/// nothing.
Model finished_model(TrainingPlan plan);

}  // namespace forecost
