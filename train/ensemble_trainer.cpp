#include "train/ensemble_trainer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/random.hpp"

namespace forecost {

namespace {

std::uint64_t stream_of(std::uint64_t seed, std::uint64_t purpose, int member, std::int64_t epoch) {
  return mix64(mix64(mix64(seed ^ purpose) + static_cast<std::uint64_t>(member)) +
               static_cast<std::uint64_t>(epoch));
}

}  // namespace

EnsembleTrainer::EnsembleTrainer(const EnsembleTask& task, const EngineFactory& engine,
                                 Collective& collective)
    : task_(task), collective_(collective) {
  const StepProblem problem{.recipe = task_.recipe,
                            .shape = task_.shape,
                            .x = task_.x,
                            .y = task_.y,
                            .networks = static_cast<std::int64_t>(task_.members.size()),
                            .batch = task_.batch,
                            .sharing = task_.sharing};
  rows_ = problem.rows();
  steps_per_epoch_ = problem.steps_per_epoch();
  engine_ = engine(problem, collective_);
  engine_->load(initial_state());
}

/// He, Zhang, Ren, Sun 2015: normal with variance 2 / inputs for ReLU layers.
EnsembleState EnsembleTrainer::initial_state() const {
  const MlpShape& shape = task_.shape;
  EnsembleState state;
  state.parameters.resize(state_size());
  state.first_moment.resize(state_size());
  state.second_moment.resize(state_size());
  float* parameters = state.parameters.data();
  for (const int member : task_.members) {
    Random random(stream_of(task_.seed, 1, member, 0));
    for (std::size_t l = 0; l < shape.layers(); ++l) {
      const std::int64_t in = shape.widths()[l], out = shape.widths()[l + 1];
      const bool linear = l + 1 == shape.layers();
      const double deviation = std::sqrt((linear ? 1.0 : 2.0) / static_cast<double>(in));
      for (std::int64_t i = 0; i < in * out; ++i) {
        parameters[shape.weights_at(l) + static_cast<std::size_t>(i)] =
            static_cast<float>(deviation * random.normal());
      }
    }
    parameters += shape.size();
  }
  return state;
}

EnsembleState EnsembleTrainer::state() const {
  EnsembleState state{.epoch = epoch_, .step = step_};
  engine_->store(state);
  return state;
}

void EnsembleTrainer::restore(const EnsembleState& state) {
  if (state.parameters.size() != state_size() || state.first_moment.size() != state_size() ||
      state.second_moment.size() != state_size()) {
    throw DataError("the checkpoint is of a network of another shape");
  }
  engine_->load(state);
  epoch_ = state.epoch;
  step_ = state.step;
}

/// `step` counts from 0.
double EnsembleTrainer::learning_rate(std::int64_t step) const {
  const Recipe& recipe = task_.recipe;
  if (recipe.schedule == RateSchedule::halving) {
    return recipe.learning_rate * std::pow(0.5, static_cast<double>(epoch_ / recipe.halve_every));
  }
  const double total = static_cast<double>(task_.epochs) * static_cast<double>(steps_per_epoch_);
  const double progress = static_cast<double>(step) / total;
  constexpr double rise = 0.1, start = 0.1;
  if (progress < rise) {
    return recipe.learning_rate * (start + (1 - start) * progress / rise);
  }
  return recipe.learning_rate * (1 + std::cos(std::numbers::pi * (progress - rise) / (1 - rise))) /
         2;
}

double EnsembleTrainer::run_epoch() {
  StepEpoch epoch{.first_step = step_ + 1};
  for (const int member : task_.members) {
    std::vector<std::uint32_t> order(static_cast<std::size_t>(rows_));
    std::iota(order.begin(), order.end(), 0U);
    Random(stream_of(task_.seed, 2, member, epoch_)).shuffle(order);
    epoch.order.push_back(std::move(order));
    epoch.dropout_seeds.push_back(stream_of(task_.seed, 3, member, epoch_));
  }
  for (std::int64_t s = 0; s < steps_per_epoch_; ++s) {
    epoch.learning_rates.push_back(learning_rate(step_ + s));
  }
  const double loss = engine_->run_epoch(epoch);
  step_ += steps_per_epoch_;
  ++epoch_;
  // The loss tells of a divergence on any rank.
  std::vector<double> worst{std::isfinite(loss) ? 0.0 : 1.0};
  collective_.max(worst);
  if (worst[0] > 0) {
    throw DataError(fmt::format("the training diverged in epoch {}: a loss is not finite", epoch_));
  }
  return loss / static_cast<double>(rows_ * static_cast<std::int64_t>(task_.members.size()));
}

}  // namespace forecost
