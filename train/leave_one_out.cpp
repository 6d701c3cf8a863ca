#include "train/leave_one_out.hpp"

#include <set>

#include <fmt/format.h>

#include "mpi/agree.hpp"

namespace forecost {

std::optional<Evaluation> leave_one_device_out(
    const Dataset& data, const TrainOptions& options, const World& world,
    const std::function<void(const TrainProgress&)>& watch) {
  std::set<std::string> found;
  for (const Example& example : data.examples) found.insert(example.query.device->device_class);
  const std::vector<std::string> classes(found.begin(), found.end());
  if (classes.size() < 2) {
    throw AgreedError(ExitCode::usage,
                      fmt::format("--leave-one-device-out: expected corpora of at least two device "
                                  "classes, these have {}: give more",
                                  classes.empty() ? "none" : classes.front() + " only"));
  }
  const auto models = train_models_without(classes, data, options, world, watch);
  if (!models) return std::nullopt;
  Evaluation all;
  if (world.rank() != 0) return all;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    std::vector<Example> rows;
    for (const Example& example : data.examples) {
      if (example.query.device->device_class == classes[i]) rows.push_back(example);
    }
    const Evaluation fold = evaluate((*models)[i], rows);
    all.rows.insert(all.rows.end(), fold.rows.begin(), fold.rows.end());
    all.not_covered += fold.not_covered;
  }
  return all;
}

}  // namespace forecost
