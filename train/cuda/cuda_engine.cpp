#include "train/cuda/cuda_engine.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "core/error.hpp"
#include "core/training_rules.hpp"

namespace forecost {

namespace {

std::vector<std::int64_t> offsets(const MlpShape& shape,
                                  std::size_t (MlpShape::*at)(std::size_t) const) {
  std::vector<std::int64_t> all;
  for (std::size_t l = 0; l < shape.layers(); ++l) {
    all.push_back(static_cast<std::int64_t>((shape.*at)(l)));
  }
  return all;
}

class CudaEngine final : public StepEngine {
 public:
  CudaEngine(TrainingDevice& device, cuda::Precision precision, const StepProblem& problem,
             Collective& collective)
      : device_(device),
        collective_(collective),
        nccl_(dynamic_cast<NcclCollective*>(&collective)),
        problem_(problem),
        size_(problem.shape.size() * static_cast<std::size_t>(problem.networks)) {
    if (problem.sharing == Sharing::deterministic) {
      throw UsageError(
          "--deterministic sums are a CPU's: leave it out, or train with --device cpu");
    }
    if (nccl_ == nullptr && collective.size() > 1) {
      throw std::logic_error("ranks with GPUs sum by NCCL");
    }
    const auto weights_at = offsets(problem.shape, &MlpShape::weights_at),
               bias_at = offsets(problem.shape, &MlpShape::bias_at);
    const Recipe& recipe = problem.recipe;
    const cuda::TrainingSetup setup{.layers = static_cast<std::int32_t>(problem.shape.layers()),
                                    .widths = problem.shape.widths().data(),
                                    .weights_at = weights_at.data(),
                                    .bias_at = bias_at.data(),
                                    .parameters = static_cast<std::int64_t>(problem.shape.size()),
                                    .networks = problem.networks,
                                    .rows = problem.rows(),
                                    .x = problem.x.data(),
                                    .y = problem.y.data(),
                                    .batch = problem.batch,
                                    .loss = recipe.loss == Loss::squared
                                                ? cuda::TrainingLoss::squared
                                                : cuda::TrainingLoss::absolute,
                                    .huber_delta = recipe.huber_delta,
                                    .dropout = recipe.dropout,
                                    .precision = precision};
    ask("opening a training",
        device.table().open_trainer(device.context(),
                                    nccl_ == nullptr ? nullptr : nccl_->communicator(), &setup,
                                    &trainer_));
  }
  ~CudaEngine() override { device_.table().close_trainer(trainer_); }
  CudaEngine(const CudaEngine&) = delete;
  CudaEngine& operator=(const CudaEngine&) = delete;

  void load(const EnsembleState& state) override {
    ask("loading a training",
        device_.table().load_trainer(trainer_, state.parameters.data(), state.first_moment.data(),
                                     state.second_moment.data()));
  }

  void store(EnsembleState& state) const override {
    for (Floats* each : {&state.parameters, &state.first_moment, &state.second_moment}) {
      each->resize(size_);
    }
    ask("storing a training",
        device_.table().store_trainer(trainer_, state.parameters.data(), state.first_moment.data(),
                                      state.second_moment.data()));
  }

  double run_epoch(const StepEpoch& epoch) override {
    std::vector<std::uint32_t> order;
    for (const auto& of_network : epoch.order) {
      order.insert(order.end(), of_network.begin(), of_network.end());
    }
    std::vector<AdamFactors> factors;
    for (std::size_t step = 0; step < epoch.learning_rates.size(); ++step) {
      factors.emplace_back(AdamStep{.learning_rate = epoch.learning_rates[step],
                                    .epsilon = problem_.recipe.adam_epsilon,
                                    .weight_decay = problem_.recipe.weight_decay,
                                    .l2 = problem_.recipe.l2,
                                    .step = epoch.first_step + static_cast<std::int64_t>(step)});
    }
    const auto steps = static_cast<std::int64_t>(factors.size());
    // The device's sums have the counts that the host sees to here: the same number of steps, with
    // the same number of elements, on every rank.
    std::vector<double> same{static_cast<double>(steps), -static_cast<double>(steps),
                             static_cast<double>(size_), -static_cast<double>(size_)};
    collective_.max(same);
    if (same[0] != -same[1] || same[2] != -same[3]) {
      throw std::logic_error("ranks are about to train different networks together");
    }
    const cuda::TrainingEpoch wanted{.order = order.data(),
                                     .dropout_seeds = epoch.dropout_seeds.data(),
                                     .factors = factors.data(),
                                     .steps = steps};
    double loss = 0;
    ask("training", device_.table().train_epoch(trainer_, &wanted, &loss));
    return loss;
  }

 private:
  void ask(const char* what, const cuda::Outcome& outcome) const {
    if (nccl_ != nullptr) return nccl_->ask(what, outcome);
    device_.ask(what, outcome);
  }

  TrainingDevice& device_;
  Collective& collective_;
  NcclCollective* nccl_;
  const StepProblem problem_;
  const std::size_t size_;
  cuda::Trainer* trainer_ = nullptr;
};

}  // namespace

EngineFactory cuda_engines(TrainingDevice& device, cuda::Precision precision) {
  return [&device, precision](const StepProblem& problem, Collective& collective) {
    return std::make_unique<CudaEngine>(device, precision, problem, collective);
  };
}

}  // namespace forecost
