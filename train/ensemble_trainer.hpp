#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mpi/collective.hpp"
#include "train/step_engine.hpp"

namespace forecost {

/// What is to be trained.
struct EnsembleTask {
  Recipe recipe;
  MlpShape shape;
  std::span<const float> x, y;  ///< rows x inputs, rows; they outlive the trainer
  int epochs;
  std::int64_t batch;  ///< rows of a step over all ranks
  std::uint64_t seed;
  Sharing sharing;
  /// Those of the ensemble that are trained here. Each depends on its index and the seed, and not
  /// on which others are trained beside it.
  std::vector<int> members;
};

/// Trains members of an ensemble side by side: every step takes one batch for each member, and one
/// collective sum of all their gradients. Says which rows a step takes and at which rate; an engine
/// computes it. Every rank holds all rows and ends with the same parameters. Ranks without rows in
/// a step take part in its sum all the same.
class EnsembleTrainer {
 public:
  /// `collective` outlives the trainer.
  EnsembleTrainer(const EnsembleTask& task, const EngineFactory& engine, Collective& collective);

  /// Parameters and moments of the members, in the order of the task. Each rank may ask for itself.
  EnsembleState state() const;
  /// Continues from a state of the same task. Throws DataError if it is of another shape.
  void restore(const EnsembleState& state);
  std::int64_t epoch() const { return epoch_; }  ///< finished
  int epochs() const { return task_.epochs; }

  /// One pass over the rows. Returns this rank's share of the mean loss of the epoch. Throws
  /// DataError if the training diverges.
  double run_epoch();

 private:
  std::size_t state_size() const { return task_.shape.size() * task_.members.size(); }
  double learning_rate(std::int64_t step) const;
  EnsembleState initial_state() const;

  EnsembleTask task_;
  Collective& collective_;
  std::int64_t rows_, steps_per_epoch_;
  std::int64_t epoch_ = 0, step_ = 0;  ///< finished
  std::unique_ptr<StepEngine> engine_;
};

}  // namespace forecost
