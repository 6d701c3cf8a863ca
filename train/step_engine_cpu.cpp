#include <algorithm>
#include <cmath>

#include "train/adam.hpp"
#include "train/gemm.hpp"
#include "train/gradient.hpp"
#include "train/step_engine.hpp"

namespace forecost {

namespace {

/// Micro-shards of a batch: divisible by 1, 2, 3, 4, 6 and 12 ranks.
constexpr std::int64_t micro_shards = 12;

// Gradients are summed as whole multiples of 2^-40, within 2^18 each: twelve of them stay within an
// int64, and a gradient of 1e-6, which Adam scales up, keeps six digits. Sums of integers do not
// depend on their order.
constexpr double exact_unit = 0x1p-40;
constexpr double exact_limit = 0x1p18;

class CpuEngine final : public StepEngine {
 public:
  CpuEngine(const StepProblem& problem, Collective& collective)
      : problem_(problem),
        collective_(collective),
        network_size_(problem.shape.size()),
        gradient_(network_size_ * static_cast<std::size_t>(problem.networks)),
        workspace_(problem.shape, problem.batch) {
    if (problem.sharing == Sharing::deterministic) {
      exact_.resize(gradient_.size());
      shard_gradient_.resize(network_size_);
    }
  }

  void load(const EnsembleState& state) override { state_ = state; }
  void store(EnsembleState& state) const override {
    state.parameters = state_.parameters;
    state.first_moment = state_.first_moment;
    state.second_moment = state_.second_moment;
  }

  double run_epoch(const StepEpoch& epoch) override {
    const Recipe& recipe = problem_.recipe;
    double loss = 0;
    for (std::int64_t step = 0; step < problem_.steps_per_epoch(); ++step) {
      const std::int64_t first = step * problem_.batch;
      const std::int64_t last = std::min(first + problem_.batch, problem_.rows());
      loss += problem_.sharing == Sharing::fast ? add_fast(epoch, first, last)
                                                : add_deterministic(epoch, first, last);
      adam_step({.learning_rate = epoch.learning_rates[static_cast<std::size_t>(step)],
                 .epsilon = recipe.adam_epsilon,
                 .weight_decay = recipe.weight_decay,
                 .l2 = recipe.l2,
                 .step = epoch.first_step + step},
                gradient_.size(), gradient_.data(), state_.parameters.data(),
                state_.first_moment.data(), state_.second_moment.data());
    }
    // MPI does not promise that a float sum has the same bits on every rank; parameters must not
    // drift apart.
    if (problem_.sharing == Sharing::fast) {
      collective_.broadcast(std::span<float>(state_.parameters), 0);
    }
    return loss;
  }

 private:
  /// Gradient of the rows [first, last) of one network's order; returns the sum of their losses.
  double gradient_of(const StepEpoch& epoch, std::size_t network, std::int64_t first,
                     std::int64_t last, double scale, float* to) {
    const std::span<const std::uint32_t> rows =
        std::span(epoch.order[network])
            .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
    return mlp_gradient(best_gemm(), problem_.shape, problem_.recipe,
                        {problem_.recipe.dropout, epoch.dropout_seeds[network]},
                        state_.parameters.data() + network * network_size_, problem_.x.data(),
                        problem_.y.data(), rows, scale, workspace_, to);
  }

  double add_fast(const StepEpoch& epoch, std::int64_t first, std::int64_t last) {
    const std::int64_t count = last - first, rank = collective_.rank(), ranks = collective_.size();
    const std::int64_t begin = first + count * rank / ranks,
                       end = first + count * (rank + 1) / ranks;
    double loss = 0;
    for (std::size_t n = 0; n < epoch.order.size(); ++n) {
      loss += gradient_of(epoch, n, begin, end, 1.0 / static_cast<double>(count),
                          gradient_.data() + n * network_size_);
    }
    collective_.sum(std::span<float>(gradient_));
    return loss;
  }

  double add_deterministic(const StepEpoch& epoch, std::int64_t first, std::int64_t last) {
    const std::int64_t count = last - first;
    std::fill(exact_.begin(), exact_.end(), 0);
    double loss = 0;
    for (std::size_t n = 0; n < epoch.order.size(); ++n) {
      std::int64_t* sums = exact_.data() + n * network_size_;
      for (std::int64_t s = collective_.rank(); s < micro_shards; s += collective_.size()) {
        loss += gradient_of(epoch, n, first + count * s / micro_shards,
                            first + count * (s + 1) / micro_shards,
                            1.0 / static_cast<double>(count), shard_gradient_.data());
        for (std::size_t i = 0; i < network_size_; ++i) {
          // A NaN ends up at the limit: the loss tells of it.
          const double g = std::fmin(
              exact_limit, std::fmax(-exact_limit, static_cast<double>(shard_gradient_[i])));
          sums[i] += static_cast<std::int64_t>(std::nearbyint(g / exact_unit));
        }
      }
    }
    collective_.sum(std::span<std::int64_t>(exact_));
    for (std::size_t i = 0; i < gradient_.size(); ++i) {
      gradient_[i] = static_cast<float>(static_cast<double>(exact_[i]) * exact_unit);
    }
    return loss;
  }

  const StepProblem problem_;
  Collective& collective_;
  const std::size_t network_size_;
  EnsembleState state_;
  Floats gradient_, shard_gradient_;
  std::vector<std::int64_t> exact_;  ///< of deterministic sums
  GradientWorkspace workspace_;
};

}  // namespace

std::unique_ptr<StepEngine> make_cpu_engine(const StepProblem& problem, Collective& collective) {
  return std::make_unique<CpuEngine>(problem, collective);
}

}  // namespace forecost
