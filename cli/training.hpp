#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "cli/verb.hpp"
#include "core/progress.hpp"
#include "train/cuda/training_device.hpp"
#include "train/trainer.hpp"

namespace forecost::cli {

/// How networks are trained: what `train` and `evaluate --leave-one-device-out` share.
po::options_description training_options();
/// Their values; throws UsageError.
TrainOptions training_options_of(const po::variables_map& values);

/// Where networks are trained: sets engine and collectives of the options. What it returns must
/// live as long as they are used; null where a CPU trains. Called by all ranks. Throws AgreedError:
/// --device cuda without a GPU for each rank (environment), options that do not fit (usage).
std::unique_ptr<TrainingDevice> choose_training_device(const World& world,
                                                       const po::variables_map& values,
                                                       TrainOptions& options);

/// The rows to train on, the same on all ranks. Throws AgreedError.
Dataset load_training_data(const World& world, const std::vector<std::filesystem::path>& corpora,
                           const TrainOptions& options, const TrainingDevice* device);

/// Shows how far the training is, on rank 0.
class TrainingProgress {
 public:
  explicit TrainingProgress(const World& world) : silent_(world.rank() != 0) {}
  void operator()(const TrainProgress& now);
  void finish();

 private:
  bool silent_;
  std::optional<Progress> progress_;
};

/// What a stopped training says on rank 0.
void tell_of_stop(const World& world, const TrainOptions& options);

}  // namespace forecost::cli
