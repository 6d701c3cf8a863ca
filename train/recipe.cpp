#include "train/recipe.hpp"

#include <algorithm>

namespace forecost {

std::int64_t Recipe::batch_for(std::int64_t rows) const {
  return std::clamp<std::int64_t>(rows / 12, std::min<std::int64_t>(rows, 16), batch);
}

int Recipe::epochs_for(std::int64_t rows) const {
  const std::int64_t size = batch_for(rows);
  const std::int64_t steps_per_epoch = (rows + size - 1) / size;
  return std::max(min_epochs,
                  static_cast<int>((min_steps + steps_per_epoch - 1) / steps_per_epoch));
}

const Recipe& recipe_of(std::string_view preset) {
  // What did best on held-out rows of quickstart corpora; docs/model.md tells what was tried.
  static const Recipe physics_informed{.hidden = {128, 128, 128},
                                       .members = 6,
                                       .min_epochs = 80,
                                       .min_steps = 4000,
                                       .batch = 256,
                                       .loss = Loss::absolute,
                                       .schedule = RateSchedule::one_cycle,
                                       .learning_rate = 3e-3,
                                       .weight_decay = 0.01};
  // arXiv 1811.11880, section V, one GPU.
  static const Recipe justus2018{.hidden = {32, 64, 128, 128},
                                 .members = 1,
                                 .min_epochs = 300,
                                 .min_steps = 0,
                                 .batch = 128,
                                 .loss = Loss::squared,
                                 .schedule = RateSchedule::halving,
                                 .learning_rate = 0.1,
                                 .l2 = 1e-5,
                                 .dropout = 0.2,
                                 .adam_epsilon = 0.1,
                                 .standardise_target = false};
  return preset == "justus2018" ? justus2018 : physics_informed;
}

}  // namespace forecost
