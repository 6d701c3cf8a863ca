#include <algorithm>
#include <functional>
#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "cli/verb.hpp"
#include "core/file.hpp"
#include "core/progress.hpp"
#include "core/stop.hpp"
#include "core/units.hpp"
#include "mpi/agree.hpp"
#include "train/evaluate.hpp"
#include "train/gemm.hpp"
#include "train/trainer.hpp"

namespace forecost::cli {
namespace {

namespace fs = std::filesystem;

constexpr Help help{
    "forecost train CORPUS... -o model.h5 [options]",
    "Trains a predictor on the ok rows of corpora or run directories. Under mpirun or srun all\n"
    "ranks share the work. At the end it prints the errors on layers that it has not seen, with\n"
    "three baselines beside them. SIGUSR1 and SIGTERM write a checkpoint and end with exit code "
    "75.",
    "  forecost train run/corpus.h5 -o model.h5\n"
    "  mpirun -n 2 forecost train run/corpus.h5 -o model.h5 --checkpoint ckpt\n"
    "  forecost train run/corpus.h5 -o model.h5 --checkpoint ckpt --resume\n"
    "  forecost train run/corpus.h5 -o paper.h5 --preset justus2018"};

po::options_description options() {
  po::options_description all;
  all.add_options()("output,o", po::value<std::string>()->required(), "the model file")(
      "preset", po::value<std::string>()->default_value("default"), "default or justus2018")(
      "device", po::value<std::string>()->default_value("auto"), "where to train: auto or cpu")(
      "holdout-device", po::value<std::vector<std::string>>()->composing(),
      "a device class whose rows do not train; may be repeated")(
      "seed", po::value<std::int64_t>()->default_value(1), "of split, weights and order")(
      "epochs", po::value<int>(), "passes over the rows (the preset's own unless told)")(
      "batch", po::value<std::int64_t>(), "rows of a step, over all ranks")(
      "deterministic", "the same bits on any number of ranks; slower")(
      "checkpoint", po::value<std::string>(), "a directory for checkpoints")(
      "resume", "continue from the checkpoint, if there is one");
  return all;
}

template <class T>
T positive(const po::variables_map& values, const char* name, T fallback) {
  if (values.count(name) == 0) return fallback;
  const T value = values[name].as<T>();
  if (value < 1) throw UsageError(fmt::format("--{} {}: expected at least 1", name, value));
  return value;
}

TrainOptions train_options(const po::variables_map& values) {
  TrainOptions options;
  options.preset = values["preset"].as<std::string>();
  schemas(options.preset);  // throws for an unknown one
  const std::string device = values["device"].as<std::string>();
  if (device == "cuda") {
    throw EnvironmentError("--device cuda: this build has no CUDA module; use --device cpu");
  }
  const std::vector<std::string> known{"auto", "cpu", "cuda"};
  if (device != "auto" && device != "cpu")
    throw UsageError(unknown_name("training device", device, known));
  options.seed = static_cast<std::uint64_t>(count_of(values, "seed", 0));
  options.sharing = values.count("deterministic") > 0 ? Sharing::deterministic : Sharing::fast;
  if (values.count("holdout-device") > 0) {
    options.holdout_classes = values["holdout-device"].as<std::vector<std::string>>();
  }
  options.epochs = positive<int>(values, "epochs", 0);
  options.batch = positive<std::int64_t>(values, "batch", 0);
  if (values.count("checkpoint") > 0)
    options.checkpoint_directory = values["checkpoint"].as<std::string>();
  options.resume = values.count("resume") > 0;
  if (options.resume && options.checkpoint_directory.empty()) {
    throw UsageError("--resume needs --checkpoint DIR, the directory of the checkpoint");
  }
  return options;
}

ExitCode run(const World& world, const std::vector<std::string>& arguments) {
  po::variables_map values;
  if (!parse(world, help, options(), -1, arguments, values)) return ExitCode::done;
  const TrainOptions train = train_options(values);
  std::vector<fs::path> corpora;
  for (const auto& file : positionals(values)) corpora.emplace_back(file);
  if (corpora.empty())
    throw UsageError("train: expected at least one corpus; see 'forecost train --help'");
  const fs::path output = values["output"].as<std::string>();

  Dataset data;
  agree(world, [&] {
    if (world.rank() == 0) {
      check_output(output);
      if (fs::exists(output) && !is_model(output)) {
        throw UsageError(
            fmt::format("-o {}: it exists and is no model: name another file", output.string()));
      }
    }
    data = load_dataset(corpora, train.preset);
  });
  // A run that goes on shows each rank another moment of itself.
  const auto read = world.all_gather(fmt::format("{}", fmt::join(data.corpus_hashes, " ")));
  agree(world, [&] {
    if (std::adjacent_find(read.begin(), read.end(), std::not_equal_to<>()) == read.end()) return;
    throw DataError(
        "the corpora changed while the ranks read them: of a run that goes on, train on what "
        "'forecost corpus merge RUN_DIR -o CORPUS.h5' makes");
  });
  const auto collective = make_collective(world);
  if (world.rank() == 0) {
    spdlog::info("{}, preset {}, {}, matrix products by {}",
                 format_counted(static_cast<double>(data.examples.size()), "row"), train.preset,
                 format_counted(world.size(), "rank"), best_gemm().name());
  }
  std::optional<Progress> progress;
  auto model = train_model(data, train, *collective, [&](const TrainProgress& p) {
    if (!progress) progress.emplace("train", "epochs", p.epochs, world.rank() != 0);
    progress->update(static_cast<std::uint64_t>(p.done),
                     fmt::format("{}, loss {:.3g}", p.part, p.loss));
  });
  if (progress) progress->finish();
  if (!model) {
    if (world.rank() == 0) {
      spdlog::warn("stopped by signal {}; {}", stop_signal(),
                   train.checkpoint_directory.empty()
                       ? "without --checkpoint nothing was kept"
                       : "run the same command with --resume to continue");
    }
    return ExitCode::stopped;
  }
  if (world.rank() != 0) return ExitCode::done;
  auto held_out = examples_of(data, *model, Split::test);
  for (const Example& example : data.examples) {
    if (!model->trained_on(*example.query.device)) held_out.push_back(example);
  }
  const Evaluation evaluation = evaluate(*model, held_out);
  model->scores_json = evaluation_json(evaluation);
  save_model(*model, output);
  std::cout << "Layers that the model has not seen:\n\n"
            << evaluation_table(evaluation) << "\n"
            << output.string() << ": saved\n";
  return ExitCode::done;
}

}  // namespace

extern const Verb train_verb{"train", "fit a predictor to corpora", &run, true};

}  // namespace forecost::cli
