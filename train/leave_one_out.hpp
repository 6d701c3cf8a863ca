#pragma once

#include <functional>
#include <optional>

#include "train/evaluate.hpp"
#include "train/trainer.hpp"

namespace forecost {

/// For each device class of the data, how well a model that never saw it predicts its rows: one
/// model for each class, trained side by side by groups of ranks. Rows of one class after those of
/// the other, split "held_out_device". The comparison is made on rank 0; elsewhere it is empty.
/// nullopt if a stop was asked for. `options.holdout_classes` are held out of nothing here. Throws
/// AgreedError (usage) for fewer than two classes, else what train_model() throws.
std::optional<Evaluation> leave_one_device_out(
    const Dataset& data, const TrainOptions& options, const World& world,
    const std::function<void(const TrainProgress&)>& watch);

}  // namespace forecost
