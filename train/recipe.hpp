#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/training_rules.hpp"

namespace forecost {

enum class RateSchedule : std::uint8_t {
  one_cycle,  ///< up over a tenth of the steps, then down to zero by a cosine (Smith 2018)
  halving     ///< halved every `halve_every` epochs
};

/// How the networks of a preset are built and trained.
struct Recipe {
  std::vector<std::int64_t> hidden;
  int members;  ///< of the ensemble, trained side by side
  int min_epochs;
  std::int64_t min_steps;  ///< small corpora take more epochs, until this many
  std::int64_t batch;      ///< rows of all ranks together; at most a twelfth of the rows
  Loss loss;
  double huber_delta = 0.1;  ///< in standard deviations of the target
  RateSchedule schedule;
  double learning_rate;
  int halve_every = 40;
  double weight_decay = 0;  ///< decoupled, as AdamW's
  double l2 = 0;            ///< in the gradient, as the 2018 paper's
  double dropout = 0;       ///< after the last hidden layer
  double adam_epsilon = 1e-8;
  bool standardise_target = true;

  int epochs_for(std::int64_t rows) const;
  std::int64_t batch_for(std::int64_t rows) const;
};

/// Of "default" or "justus2018".
const Recipe& recipe_of(std::string_view preset);

}  // namespace forecost
