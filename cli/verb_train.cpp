#include <functional>
#include <iostream>

#include <fmt/format.h>

#include "cli/training.hpp"
#include "core/file.hpp"
#include "mpi/agree.hpp"
#include "train/evaluate.hpp"

namespace forecost::cli {
namespace {

namespace fs = std::filesystem;

constexpr Help help{
    "forecost train CORPUS... -o model.h5 [options]",
    "Trains a predictor on the ok rows of corpora or run directories. Under mpirun or srun groups "
    "of\n"
    "ranks train the networks of its ensembles side by side. At the end it prints the errors on\n"
    "layers that it has not seen, with three baselines beside them. SIGUSR1 and SIGTERM write a\n"
    "checkpoint and end with exit code 75; --resume goes on from it, on any number of ranks.",
    "  forecost train run/corpus.h5 -o model.h5\n"
    "  mpirun -n 8 forecost train run/corpus.h5 -o model.h5 --checkpoint ckpt\n"
    "  mpirun -n 8 forecost train run/corpus.h5 -o model.h5 --ranks-per-model 4\n"
    "  srun -n 8 --gpus-per-task=1 forecost train run/corpus.h5 -o model.h5 --device cuda\n"
    "  forecost train run/corpus.h5 -o model.h5 --checkpoint ckpt --resume\n"
    "  forecost train run/corpus.h5 -o paper.h5 --preset justus2018"};

ExitCode run(const World& world, const std::vector<std::string>& arguments) {
  po::options_description options;
  options.add_options()("output,o", po::value<std::string>()->required(), "the model file")(
      "holdout-device", po::value<std::vector<std::string>>()->composing(),
      "a device class whose rows do not train; may be repeated");
  options.add(training_options());
  po::variables_map values;
  if (!parse(world, help, options, -1, arguments, values)) return ExitCode::done;
  TrainOptions train;
  agree(world, [&] { train = training_options_of(values); });
  if (values.count("holdout-device") > 0) {
    train.holdout_classes = values["holdout-device"].as<std::vector<std::string>>();
  }
  std::vector<fs::path> corpora;
  for (const auto& file : positionals(values)) corpora.emplace_back(file);
  if (corpora.empty())
    throw UsageError("train: expected at least one corpus; see 'forecost train --help'");
  const fs::path output = values["output"].as<std::string>();
  agree(world, [&] {
    if (world.rank() != 0) return;
    check_output(output);
    if (fs::exists(output) && !is_model(output)) {
      throw UsageError(
          fmt::format("-o {}: it exists and is no model: name another file", output.string()));
    }
  });
  const auto device = choose_training_device(world, values, train);
  const Dataset data = load_training_data(world, corpora, train, device.get());
  TrainingProgress progress(world);
  auto model = train_model(data, train, world, std::ref(progress));
  progress.finish();
  if (!model) {
    tell_of_stop(world, train);
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
