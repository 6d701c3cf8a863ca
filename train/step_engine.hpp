#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "mpi/collective.hpp"
#include "train/model/mlp.hpp"
#include "train/recipe.hpp"

namespace forecost {

/// How the ranks share a step.
enum class Sharing : std::uint8_t {
  fast,          ///< each rank one slice of the batch; f32 sums
  deterministic  ///< 12 micro-shards, dealt to the ranks; exact sums: the same bits on 1 to 12
                 ///< ranks
};

/// All that changes while networks train: network after network, MlpShape::size() elements each.
struct EnsembleState {
  Floats parameters, first_moment, second_moment;
  std::int64_t epoch = 0, step = 0;  ///< finished
};

/// What an engine trains: networks of one shape on the same rows, side by side.
struct StepProblem {
  Recipe recipe;  ///< how a step is computed; batch, epochs and rates are those of StepEpoch
  MlpShape shape;
  std::span<const float> x, y;  ///< rows x inputs, rows; they outlive the engine
  std::int64_t networks;
  std::int64_t batch;  ///< rows of a step over all ranks; the last step of an epoch may have fewer
  Sharing sharing;

  std::int64_t rows() const { return static_cast<std::int64_t>(y.size()); }
  std::int64_t steps_per_epoch() const { return (rows() + batch - 1) / batch; }
};

/// One pass over the rows.
struct StepEpoch {
  std::vector<std::vector<std::uint32_t>> order;  ///< of each network: all rows, once each
  std::vector<double> learning_rates;             ///< of each step
  std::int64_t first_step;  ///< Adam's number of the first step; 1 at the very beginning
  std::vector<std::uint64_t> dropout_seeds;  ///< of each network (DropoutRule)
};

/// Computes the steps of a training: gradients of this rank's share of each batch, their sum over
/// the ranks, Adam. Every rank of the collective calls the same in the same order, and holds the
/// same state after each call. Implementations: cpu; cuda in the CUDA module.
class StepEngine {
 public:
  virtual ~StepEngine() = default;
  /// Starts from the state's parameters and moments; the counts are the caller's.
  virtual void load(const EnsembleState& state) = 0;
  /// The other way round. This rank's affair alone.
  virtual void store(EnsembleState& state) const = 0;
  /// All steps of an epoch; a step takes, for each network, the next `batch` rows of its order.
  /// Returns the sum of the losses of the rows of all networks that were this rank's share; not
  /// finite if the training diverged.
  virtual double run_epoch(const StepEpoch& epoch) = 0;
};

/// Makes the engine of this rank; called by all ranks of the collective, which outlives the engine.
using EngineFactory =
    std::function<std::unique_ptr<StepEngine>(const StepProblem& problem, Collective& collective)>;

/// An engine on this rank's core, with the best matrix product that was built.
std::unique_ptr<StepEngine> make_cpu_engine(const StepProblem& problem, Collective& collective);

}  // namespace forecost
