#include "train/training_plan.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/hash.hpp"
#include "core/random.hpp"
#include "core/units.hpp"
#include "data/corpus/merge.hpp"
#include "train/gemm.hpp"

namespace forecost {

namespace {

/// Below this a network learns nothing that a table would not tell.
constexpr std::size_t min_rows = 20;
constexpr double interval_level = 0.9;
/// Assumed, not measured, until a class is held out: errors of a device that no row is of stay
/// within a factor of two. docs/model.md says so.
constexpr double assumed_device_factor = 2;

/// Of the split, and of no held-out class.
std::vector<const Example*> rows_of(const Dataset& data, const Model& model, Split split) {
  const auto& classes = model.holdout_classes;
  std::vector<const Example*> rows;
  for (const Example& example : data.examples) {
    if (std::find(classes.begin(), classes.end(), example.query.device->device_class) ==
            classes.end() &&
        split_of(example.query.task.layer, model.split_salt) == split) {
      rows.push_back(&example);
    }
  }
  return rows;
}

/// Split conformal (Papadopoulos 2002; Lei et al. 2018): the ceil((n + 1) level)-th smallest of n
/// residuals; the largest one where n is too small for that.
double conformal_quantile(std::vector<double> residuals) {
  if (residuals.empty()) return 0;
  std::sort(residuals.begin(), residuals.end());
  const double rank = std::ceil(interval_level * static_cast<double>(residuals.size() + 1));
  return residuals[std::min(static_cast<std::size_t>(rank), residuals.size()) - 1];
}

std::vector<Query> queries_of(std::span<const Example* const> examples) {
  std::vector<Query> queries;
  for (const Example* example : examples) queries.push_back(example->query);
  return queries;
}

TrainingPart prepare_part(const FeatureSchema& schema, std::vector<const Example*> training,
                          std::vector<const Example*> validation, const Recipe& recipe) {
  TrainingPart part;
  part.training = std::move(training);
  part.validation = std::move(validation);
  part.model.schema = &schema;
  std::vector<double> values;
  std::size_t width = 0;
  Features features;
  std::vector<double> targets;
  std::set<std::string> combinations;
  for (const Example* example : part.training) {
    features.clear();
    schema.describe(example->query, features);
    width = features.values().size();
    values.insert(values.end(), features.values().begin(), features.values().end());
    targets.push_back(schema.target(example->query, example->seconds));
    combinations.insert(combination(example->query.task));
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
  for (const double t : targets) {
    part.y.push_back(static_cast<float>((t - part.model.target_mean) / part.model.target_scale));
  }
  part.model.shape =
      MlpShape(static_cast<std::int64_t>(part.model.normaliser.inputs()), recipe.hidden);
  return part;
}

/// Half-widths of the intervals, by pass, from rows that trained nothing.
void calibrate(Model& model, const std::vector<TrainingPart>& parts) {
  for (std::size_t p = 0; p < parts.size(); ++p) {
    SchemaModel& part = model.parts[p];
    // Rows of a combination that no training row has (one bf16 layer, say) cannot be predicted.
    std::vector<const Example*> rows;
    for (const Example* example :
         parts[p].validation.empty() ? parts[p].training : parts[p].validation) {
      if (part.knows(example->query.task)) rows.push_back(example);
    }
    for (const auto pass : EnumNames<Pass>::names) part.layer_halfwidth[std::string(pass)] = 0;
    const auto predictions = model.predict(queries_of(rows));
    std::map<std::string, std::vector<double>> by_pass;
    std::vector<double> all;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double residual = std::fabs(std::log(rows[i]->seconds / predictions[i].seconds));
      by_pass[std::string(name_of(rows[i]->query.task.pass))].push_back(residual);
      all.push_back(residual);
    }
    constexpr std::size_t enough = 9;  // the fewest residuals of which the largest is a 90 % bound
    for (auto& [pass, halfwidth] : part.layer_halfwidth) {
      const auto& own = by_pass[pass];
      halfwidth = conformal_quantile(own.size() >= enough ? own : all);
    }
  }
}

}  // namespace

Floats TrainingPart::x() const { return inputs_of(model, queries_of(training)); }

std::string identity_of(const Dataset& data) {
  std::string text;
  for (const Example& example : data.examples) {
    text += fmt::format("{} {} {}\n", task_text(example.query.task), example.query.device->id(),
                        example.seconds);
  }
  return short_id(text);
}

std::vector<Example> examples_of(const Dataset& data, const Model& model, Split split) {
  std::vector<Example> examples;
  for (const Example* row : rows_of(data, model, split)) examples.push_back(*row);
  return examples;
}

TrainingPlan make_training_plan(const Dataset& data, const std::string& data_identity,
                                const TrainOptions& options,
                                const std::vector<std::string>& holdout_classes) {
  const Recipe& recipe = recipe_of(options.preset);
  TrainingPlan plan;
  Model& model = plan.model;
  model.preset = options.preset;
  model.seed = options.seed;
  model.split_salt = mix64(options.seed);
  model.holdout_classes = holdout_classes;
  model.corpus_hashes = data.corpus_hashes;
  model.unseen_device_halfwidth = std::log(assumed_device_factor);
  model.use(best_gemm());
  plan.identity = fmt::format(
      "preset {}, seed {}, {}, epochs {}, batch {}, held out [{}], rows {}", options.preset,
      options.seed, options.sharing == Sharing::fast ? "fast" : "deterministic", options.epochs,
      options.batch, fmt::join(holdout_classes, " "), data_identity);
  plan.checkpoints = options.checkpoint_directory;

  std::set<std::string> classes;
  for (const Example& example : data.examples) classes.insert(example.query.device->device_class);
  const std::vector<std::string> known(classes.begin(), classes.end());
  for (const auto& name : holdout_classes) {
    if (!classes.contains(name))
      throw UsageError(unknown_name("device class to hold out", name, known));
  }
  const auto training = examples_of(data, model, Split::train);
  if (training.size() < min_rows) {
    throw DataError(fmt::format(
        "{}{} to train on, at least {} are needed: collect more layers, or give "
        "more corpora",
        holdout_classes.empty() ? ""
                                : fmt::format("without {}: ", fmt::join(holdout_classes, ", ")),
        format_counted(training.size(), "row"), min_rows));
  }
  for (const Example& example : training) {
    if (!model.trained_on(*example.query.device))
      model.training_devices.push_back(*example.query.device);
  }
  model.linear_published = LinearBaseline(LinearBaseline::Kind::published, training).coefficients();
  model.linear_fair = LinearBaseline(LinearBaseline::Kind::fair, training).coefficients();
  plan.training_rows = training.size();

  const auto training_rows = rows_of(data, model, Split::train);
  const auto validation_rows = rows_of(data, model, Split::validation);
  for (const FeatureSchema* schema : schemas(options.preset)) {
    const auto covered = [&](const std::vector<const Example*>& from) {
      std::vector<const Example*> rows;
      std::copy_if(from.begin(), from.end(), std::back_inserter(rows),
                   [&](const Example* row) { return schema->covers(row->query.task); });
      return rows;
    };
    auto rows = covered(training_rows);
    if (rows.empty()) continue;
    TrainingPart part = prepare_part(*schema, std::move(rows), covered(validation_rows), recipe);
    const auto n = static_cast<std::int64_t>(part.y.size());
    part.epochs = options.epochs > 0 ? options.epochs : recipe.epochs_for(n);
    part.batch = std::min(n, options.batch > 0 ? options.batch : recipe.batch_for(n));
    part.seed = options.seed + plan.parts.size();
    plan.parts.push_back(std::move(part));
  }
  if (plan.parts.empty()) {
    throw DataError(
        fmt::format("no row that preset {} can train on; justus2018 needs forward rows of "
                    "dense or conv2d layers",
                    options.preset));
  }
  return plan;
}

Model finished_model(TrainingPlan plan) {
  Model model = std::move(plan.model);
  for (const TrainingPart& part : plan.parts) model.parts.push_back(part.model);
  calibrate(model, plan.parts);
  model.history.push_back(
      history_line(fmt::format("trained on {} of {}", format_counted(plan.training_rows, "row"),
                               format_counted(model.corpus_hashes.size(), "corpus", "corpora"))));
  return model;
}

}  // namespace forecost
