#include "train/ensemble_trainer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "train/adam.hpp"

namespace forecost {

namespace {

/// Micro-shards of a batch: divisible by 1, 2, 3, 4, 6 and 12 ranks.
constexpr std::int64_t micro_shards = 12;

// Gradients are summed as whole multiples of 2^-40, within 2^18 each: twelve of them stay within an
// int64, and a gradient of 1e-6, which Adam scales up, keeps six digits. Sums of integers do not
// depend on their order.
constexpr double exact_unit = 0x1p-40;
constexpr double exact_limit = 0x1p18;

std::uint64_t stream_of(std::uint64_t seed, std::uint64_t purpose, std::uint64_t member,
                        std::uint64_t epoch) {
  return mix64(mix64(mix64(seed ^ purpose) + member) + epoch);
}

}  // namespace

EnsembleTrainer::EnsembleTrainer(const Recipe& recipe, MlpShape shape, std::span<const float> x,
                                 std::span<const float> y, int epochs, std::int64_t batch,
                                 std::uint64_t seed, Sharing sharing, const Gemm& gemm,
                                 Collective& collective)
    : recipe_(recipe),
      shape_(std::move(shape)),
      x_(x),
      y_(y),
      epochs_(epochs),
      batch_(batch),
      seed_(seed),
      sharing_(sharing),
      gemm_(gemm),
      collective_(collective),
      order_(static_cast<std::size_t>(recipe.members)),
      workspace_(shape_, batch) {
  const std::size_t size = shape_.size() * static_cast<std::size_t>(recipe.members);
  gradient_.resize(size);
  state_.parameters.resize(size);
  state_.first_moment.resize(size);
  state_.second_moment.resize(size);
  if (sharing == Sharing::deterministic) {
    exact_.resize(size);
    shard_gradient_.resize(shape_.size());
  }
  // He, Zhang, Ren, Sun 2015: normal with variance 2 / inputs for ReLU layers.
  for (int m = 0; m < recipe.members; ++m) {
    Random random(stream_of(seed, 1, static_cast<std::uint64_t>(m), 0));
    float* parameters = state_.parameters.data() + static_cast<std::size_t>(m) * shape_.size();
    for (std::size_t l = 0; l < shape_.layers(); ++l) {
      const std::int64_t in = shape_.widths()[l], out = shape_.widths()[l + 1];
      const bool linear = l + 1 == shape_.layers();
      const double deviation = std::sqrt((linear ? 1.0 : 2.0) / static_cast<double>(in));
      for (std::int64_t i = 0; i < in * out; ++i) {
        parameters[shape_.weights_at(l) + static_cast<std::size_t>(i)] =
            static_cast<float>(deviation * random.normal());
      }
    }
  }
}

void EnsembleTrainer::restore(EnsembleState state) {
  if (state.parameters.size() != state_.parameters.size() ||
      state.first_moment.size() != state_.first_moment.size() ||
      state.second_moment.size() != state_.second_moment.size()) {
    throw DataError("the checkpoint is of a network of another shape");
  }
  state_ = std::move(state);
}

Floats EnsembleTrainer::member(int index) const {
  const auto begin = state_.parameters.begin() +
                     static_cast<std::ptrdiff_t>(static_cast<std::size_t>(index) * shape_.size());
  return {begin, begin + static_cast<std::ptrdiff_t>(shape_.size())};
}

double EnsembleTrainer::learning_rate() const {
  if (recipe_.schedule == RateSchedule::halving) {
    return recipe_.learning_rate *
           std::pow(0.5, static_cast<double>(state_.epoch / recipe_.halve_every));
  }
  const double total = static_cast<double>(epochs_) * static_cast<double>(steps_per_epoch());
  const double progress = static_cast<double>(state_.step) / total;
  constexpr double rise = 0.1, start = 0.1;
  if (progress < rise) {
    return recipe_.learning_rate * (start + (1 - start) * progress / rise);
  }
  return recipe_.learning_rate * (1 + std::cos(std::numbers::pi * (progress - rise) / (1 - rise))) /
         2;
}

double EnsembleTrainer::gradient_of(int member, std::int64_t first, std::int64_t last, double scale,
                                    float* to) {
  const auto m = static_cast<std::size_t>(member);
  const std::span<const std::uint32_t> rows = std::span(order_[m]).subspan(
      static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
  const Dropout dropout{recipe_.dropout,
                        stream_of(seed_, 3, m, static_cast<std::uint64_t>(state_.epoch))};
  return mlp_gradient(gemm_, shape_, recipe_, dropout, state_.parameters.data() + m * shape_.size(),
                      x_.data(), y_.data(), rows, scale, workspace_, to);
}

double EnsembleTrainer::add_fast(std::int64_t first, std::int64_t last) {
  const std::int64_t count = last - first, rank = collective_.rank(), ranks = collective_.size();
  const std::int64_t begin = first + count * rank / ranks, end = first + count * (rank + 1) / ranks;
  double loss = 0;
  for (int m = 0; m < recipe_.members; ++m) {
    loss += gradient_of(m, begin, end, 1.0 / static_cast<double>(count),
                        gradient_.data() + static_cast<std::size_t>(m) * shape_.size());
  }
  collective_.sum(std::span<float>(gradient_));
  return loss;
}

double EnsembleTrainer::add_deterministic(std::int64_t first, std::int64_t last) {
  const std::int64_t count = last - first;
  std::fill(exact_.begin(), exact_.end(), 0);
  double loss = 0;
  for (int m = 0; m < recipe_.members; ++m) {
    std::int64_t* sums = exact_.data() + static_cast<std::size_t>(m) * shape_.size();
    for (std::int64_t s = collective_.rank(); s < micro_shards; s += collective_.size()) {
      loss +=
          gradient_of(m, first + count * s / micro_shards, first + count * (s + 1) / micro_shards,
                      1.0 / static_cast<double>(count), shard_gradient_.data());
      for (std::size_t i = 0; i < shape_.size(); ++i) {
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

double EnsembleTrainer::run_epoch() {
  for (std::size_t m = 0; m < order_.size(); ++m) {
    order_[m].resize(static_cast<std::size_t>(rows()));
    std::iota(order_[m].begin(), order_[m].end(), 0U);
    Random(stream_of(seed_, 2, m, static_cast<std::uint64_t>(state_.epoch))).shuffle(order_[m]);
  }
  double loss = 0;
  for (std::int64_t first = 0; first < rows(); first += batch_) {
    const std::int64_t last = std::min(first + batch_, rows());
    const double rate = learning_rate();
    loss += sharing_ == Sharing::fast ? add_fast(first, last) : add_deterministic(first, last);
    ++state_.step;
    adam_step({.learning_rate = rate,
               .epsilon = recipe_.adam_epsilon,
               .weight_decay = recipe_.weight_decay,
               .l2 = recipe_.l2,
               .step = static_cast<long>(state_.step)},
              gradient_.size(), gradient_.data(), state_.parameters.data(),
              state_.first_moment.data(), state_.second_moment.data());
  }
  ++state_.epoch;
  // MPI does not promise that a float sum has the same bits on every rank; parameters must not
  // drift apart. The loss tells of a divergence on any rank.
  if (sharing_ == Sharing::fast) collective_.broadcast(std::span<float>(state_.parameters), 0);
  std::vector<double> worst{std::isfinite(loss) ? 0.0 : 1.0};
  collective_.max(worst);
  if (worst[0] > 0) {
    throw DataError(
        fmt::format("the training diverged in epoch {}: a loss is not finite", state_.epoch));
  }
  return loss / static_cast<double>(rows() * recipe_.members);
}

}  // namespace forecost
