#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mpi/collective.hpp"
#include "train/gradient.hpp"
#include "train/model/mlp.hpp"
#include "train/recipe.hpp"

namespace forecost {

/// All that changes while an ensemble trains: member after member, MlpShape::size() elements each.
struct EnsembleState {
  Floats parameters, first_moment, second_moment;
  std::int64_t epoch = 0, step = 0;  ///< finished
};

/// How the ranks share a step.
enum class Sharing : std::uint8_t {
  fast,          ///< each rank one slice of the batch; f32 sums
  deterministic  ///< 12 micro-shards, dealt to the ranks; exact sums: the same bits on 1 to 12
                 ///< ranks
};

/// Trains the members of an ensemble side by side: every step takes one batch for each member, and
/// one collective sum of all their gradients. Every rank holds all rows and ends with the same
/// parameters. Ranks without rows in a step take part in its sum all the same.
class EnsembleTrainer {
 public:
  /// `x`: rows x inputs, `y`: rows; both outlive the trainer, as do recipe, gemm and collective.
  EnsembleTrainer(const Recipe& recipe, MlpShape shape, std::span<const float> x,
                  std::span<const float> y, int epochs, std::int64_t batch, std::uint64_t seed,
                  Sharing sharing, const Gemm& gemm, Collective& collective);

  const EnsembleState& state() const { return state_; }
  /// Continues from a checkpoint of the same recipe, rows and seed.
  void restore(EnsembleState state);
  int epochs() const { return epochs_; }
  std::int64_t steps_per_epoch() const { return (rows() + batch_ - 1) / batch_; }
  const MlpShape& shape() const { return shape_; }
  /// Parameters of one member.
  Floats member(int index) const;

  /// One pass over the rows. Returns this rank's share of the mean loss of the epoch. Throws
  /// DataError if the training diverges.
  double run_epoch();

 private:
  std::int64_t rows() const { return static_cast<std::int64_t>(y_.size()); }
  double learning_rate() const;
  /// Adds up, over all ranks, the gradients of the batches [first, last) of each member's order.
  double sum_gradients(std::int64_t first, std::int64_t last);
  double add_fast(std::int64_t first, std::int64_t last);
  double add_deterministic(std::int64_t first, std::int64_t last);
  double gradient_of(int member, std::int64_t first, std::int64_t last, double scale, float* to);

  const Recipe& recipe_;
  MlpShape shape_;
  std::span<const float> x_, y_;
  int epochs_;
  std::int64_t batch_;
  std::uint64_t seed_;
  Sharing sharing_;
  const Gemm& gemm_;
  Collective& collective_;

  EnsembleState state_;
  Floats gradient_, shard_gradient_;
  std::vector<std::int64_t> exact_;                ///< of deterministic sums
  std::vector<std::vector<std::uint32_t>> order_;  ///< of each member in this epoch
  GradientWorkspace workspace_;
};

}  // namespace forecost
