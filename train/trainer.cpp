#include "train/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/hash.hpp"
#include "core/random.hpp"
#include "core/stop.hpp"
#include "core/units.hpp"
#include "data/corpus/merge.hpp"
#include "train/checkpoint.hpp"
#include "train/gemm.hpp"

namespace forecost {

namespace {

/// Below this a network learns nothing that a table would not tell.
constexpr std::size_t min_rows = 20;
constexpr double interval_level = 0.9;
/// Assumed, not measured, until a class is held out: errors of a device that no row is of stay
/// within a factor of two. docs/model.md says so.
constexpr double assumed_device_factor = 2;

bool is_held_out(const Example& example, const std::vector<std::string>& classes) {
  return std::find(classes.begin(), classes.end(), example.query.device->device_class) !=
         classes.end();
}

/// Split conformal (Papadopoulos 2002; Lei et al. 2018): the ceil((n + 1) level)-th smallest of n
/// residuals; the largest one where n is too small for that.
double conformal_quantile(std::vector<double> residuals) {
  if (residuals.empty()) return 0;
  std::sort(residuals.begin(), residuals.end());
  const double rank = std::ceil(interval_level * static_cast<double>(residuals.size() + 1));
  return residuals[std::min(static_cast<std::size_t>(rank), residuals.size()) - 1];
}

/// One ensemble in training: rows, inputs and targets of one schema.
struct Part {
  SchemaModel model;
  std::vector<Example> training, validation;
  Floats x, y;
};

Part prepare_part(const FeatureSchema& schema, std::vector<Example> training,
                  std::vector<Example> validation, const Recipe& recipe) {
  Part part;
  part.training = std::move(training);
  part.validation = std::move(validation);
  part.model.schema = &schema;
  std::vector<double> values;
  std::size_t width = 0;
  Features features;
  std::vector<double> targets;
  std::set<std::string> combinations;
  for (const Example& example : part.training) {
    features.clear();
    schema.describe(example.query, features);
    width = features.values().size();
    values.insert(values.end(), features.values().begin(), features.values().end());
    targets.push_back(schema.target(example.query, example.seconds));
    combinations.insert(combination(example.query.task));
  }
  part.model.trained.assign(combinations.begin(), combinations.end());
  part.model.normaliser = Normaliser::fit(values, width);
  if (recipe.standardise_target) {
    const auto n = static_cast<double>(targets.size());
    const double mean = std::accumulate(targets.begin(), targets.end(), 0.0) / n;
    double squares = 0;
    for (const double t : targets) squares += (t - mean) * (t - mean);
    part.model.target_mean = mean;
    // Equal times everywhere (a synthetic device) leave nothing to scale.
    part.model.target_scale = squares > 0 ? std::sqrt(squares / n) : 1;
  }
  std::vector<Query> queries;
  for (const Example& example : part.training) queries.push_back(example.query);
  part.x = inputs_of(part.model, queries);
  for (const double t : targets) {
    part.y.push_back(static_cast<float>((t - part.model.target_mean) / part.model.target_scale));
  }
  part.model.shape =
      MlpShape(static_cast<std::int64_t>(part.model.normaliser.inputs()), recipe.hidden);
  return part;
}

/// Half-widths of the intervals, by pass, from rows that trained nothing.
void calibrate(Model& model, const std::vector<Part>& parts) {
  for (std::size_t p = 0; p < parts.size(); ++p) {
    SchemaModel& part = model.parts[p];
    // Rows of a combination that no training row has (one bf16 layer, say) cannot be predicted.
    std::vector<Example> rows;
    for (const Example& example :
         parts[p].validation.empty() ? parts[p].training : parts[p].validation) {
      if (part.knows(example.query.task)) {
        rows.push_back(example);
      }
    }
    for (const auto pass : EnumNames<Pass>::names) part.layer_halfwidth[std::string(pass)] = 0;
    std::vector<Query> queries;
    for (const Example& example : rows) queries.push_back(example.query);
    const auto predictions = model.predict(queries);
    std::map<std::string, std::vector<double>> by_pass;
    std::vector<double> all;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double residual = std::fabs(std::log(rows[i].seconds / predictions[i].seconds));
      by_pass[std::string(name_of(rows[i].query.task.pass))].push_back(residual);
      all.push_back(residual);
    }
    constexpr std::size_t enough = 9;  // the fewest residuals of which the largest is a 90 % bound
    for (auto& [pass, halfwidth] : part.layer_halfwidth) {
      const auto& own = by_pass[pass];
      halfwidth = conformal_quantile(own.size() >= enough ? own : all);
    }
  }
}

std::string identity_of(const Dataset& data, const TrainOptions& options) {
  std::string text;
  for (const Example& example : data.examples) {
    text += fmt::format("{} {} {}\n", task_text(example.query.task), example.query.device->id(),
                        example.seconds);
  }
  return fmt::format("preset {}, seed {}, {}, epochs {}, batch {}, held out [{}], rows {}",
                     options.preset, options.seed,
                     options.sharing == Sharing::fast ? "fast" : "deterministic", options.epochs,
                     options.batch, fmt::join(options.holdout_classes, " "), short_id(text));
}

}  // namespace

std::vector<Example> examples_of(const Dataset& data, const Model& model, Split split) {
  std::vector<Example> examples;
  for (const Example& example : data.examples) {
    if (!is_held_out(example, model.holdout_classes) &&
        split_of(example.query.task.layer, model.split_salt) == split) {
      examples.push_back(example);
    }
  }
  return examples;
}

std::optional<Model> train_model(const Dataset& data, const TrainOptions& options,
                                 Collective& collective,
                                 const std::function<void(const TrainProgress&)>& watch) {
  const Recipe& recipe = recipe_of(options.preset);
  Model model;
  model.preset = options.preset;
  model.seed = options.seed;
  model.split_salt = mix64(options.seed);
  model.holdout_classes = options.holdout_classes;
  model.corpus_hashes = data.corpus_hashes;
  model.unseen_device_halfwidth = std::log(assumed_device_factor);
  model.use(best_gemm());

  std::set<std::string> classes;
  for (const Example& example : data.examples) classes.insert(example.query.device->device_class);
  const std::vector<std::string> known(classes.begin(), classes.end());
  for (const auto& name : options.holdout_classes) {
    if (!classes.contains(name))
      throw UsageError(unknown_name("device class to hold out", name, known));
  }
  const auto training = examples_of(data, model, Split::train);
  const auto validation = examples_of(data, model, Split::validation);
  if (training.size() < min_rows) {
    throw DataError(
        fmt::format("{} to train on, at least {} are needed: collect more layers, or give "
                    "more corpora",
                    format_counted(training.size(), "row"), min_rows));
  }
  for (const Example& example : training) {
    if (!model.trained_on(*example.query.device))
      model.training_devices.push_back(*example.query.device);
  }
  model.linear_published = LinearBaseline(LinearBaseline::Kind::published, training).coefficients();
  model.linear_fair = LinearBaseline(LinearBaseline::Kind::fair, training).coefficients();

  std::vector<Part> parts;
  std::vector<EnsembleTrainer> trainers;
  std::int64_t epochs = 0;
  for (const FeatureSchema* schema : schemas(options.preset)) {
    const auto covered = [&](const std::vector<Example>& from) {
      std::vector<Example> rows;
      for (const Example& example : from) {
        if (schema->covers(example.query.task)) rows.push_back(example);
      }
      return rows;
    };
    auto rows = covered(training);
    if (!rows.empty())
      parts.push_back(prepare_part(*schema, std::move(rows), covered(validation), recipe));
  }
  if (parts.empty()) {
    throw DataError(
        fmt::format("no row that preset {} can train on; justus2018 needs forward rows of "
                    "dense or conv2d layers",
                    options.preset));
  }
  trainers.reserve(parts.size());
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto rows = static_cast<std::int64_t>(parts[p].y.size());
    const std::int64_t batch =
        std::min(rows, options.batch > 0 ? options.batch : recipe.batch_for(rows));
    std::vector<int> members(static_cast<std::size_t>(recipe.members));
    std::iota(members.begin(), members.end(), 0);
    trainers.emplace_back(
        EnsembleTask{.recipe = recipe,
                     .shape = parts[p].model.shape,
                     .x = parts[p].x,
                     .y = parts[p].y,
                     .epochs = options.epochs > 0 ? options.epochs : recipe.epochs_for(rows),
                     .batch = batch,
                     .seed = options.seed + p,
                     .sharing = options.sharing,
                     .members = std::move(members)},
        options.engine, collective);
    epochs += trainers.back().epochs();
  }

  Checkpoint checkpoint{.identity = identity_of(data, options)};
  if (options.resume) {
    if (auto found = load_checkpoint(options.checkpoint_directory, checkpoint.identity)) {
      checkpoint = std::move(*found);
    }
  }
  using Clock = std::chrono::steady_clock;
  Clock::time_point saved = Clock::now();
  const auto save = [&] {
    if (options.checkpoint_directory.empty() || collective.rank() != 0) return;
    save_checkpoint(checkpoint, options.checkpoint_directory);
    saved = Clock::now();
  };
  std::int64_t done = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    EnsembleTrainer& trainer = trainers[p];
    const std::string name(parts[p].model.schema->name);
    if (const auto found = checkpoint.parts.find(name); found != checkpoint.parts.end()) {
      trainer.restore(found->second);
    }
    done += trainer.epoch();
    while (trainer.epoch() < trainer.epochs()) {
      const double loss = trainer.run_epoch();
      ++done;
      watch({done, epochs, name, loss});
      // Ranks must agree on stopping, else one would wait for the other's gradients.
      std::vector<double> stop{stop_signal() != 0 ? 1.0 : 0.0};
      collective.max(stop);
      const bool due = std::chrono::duration<double>(Clock::now() - saved).count() >
                       options.checkpoint_interval_s;
      if (stop[0] > 0 || (due && collective.rank() == 0)) {
        checkpoint.parts[name] = trainer.state();
        save();
      }
      if (stop[0] > 0) return std::nullopt;
    }
    checkpoint.parts[name] = trainer.state();
    const Floats& parameters = checkpoint.parts[name].parameters;
    const auto size = static_cast<std::ptrdiff_t>(parts[p].model.shape.size());
    for (auto member = parameters.begin(); member != parameters.end(); member += size) {
      parts[p].model.members.emplace_back(member, member + size);
    }
    model.parts.push_back(parts[p].model);
  }
  save();
  calibrate(model, parts);
  model.history.push_back(
      history_line(fmt::format("trained on {} of {}", format_counted(training.size(), "row"),
                               format_counted(data.corpus_hashes.size(), "corpus", "corpora"))));
  return model;
}

}  // namespace forecost
