#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "cli/verb.hpp"
#include "core/progress.hpp"
#include "train/trainer.hpp"

namespace forecost::cli {

/// How networks are trained: what `train` and `evaluate --leave-one-device-out` share.
po::options_description training_options();
/// Their values; throws UsageError.
TrainOptions training_options_of(const po::variables_map& values);

/// The rows to train on, the same on all ranks. Throws AgreedError.
Dataset load_training_data(const World& world, const std::vector<std::filesystem::path>& corpora,
                           const TrainOptions& options);

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
