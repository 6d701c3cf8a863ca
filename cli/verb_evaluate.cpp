#include <functional>
#include <iostream>

#include <fmt/format.h>

#include "cli/training.hpp"
#include "core/stop.hpp"
#include "mpi/agree.hpp"
#include "train/evaluate.hpp"
#include "train/gemm.hpp"
#include "train/leave_one_out.hpp"

namespace forecost::cli {
namespace {

constexpr Help help{
    "forecost evaluate MODEL CORPUS... [--json]",
    "Compares a model's predictions with measurements, by operator, device and pass. Layers that "
    "it\n"
    "was trained on are told apart from held-out ones and from devices that it has never seen.\n\n"
    "evaluate --leave-one-device-out CORPUS... needs no model: for each device class of the "
    "corpora\n"
    "it trains one on the others (the options below, as of train), and compares that with the\n"
    "measurements of the class. Under mpirun or srun groups of ranks train side by side; signals\n"
    "stop it as they do train.",
    "  forecost evaluate model.h5 run/corpus.h5\n"
    "  forecost evaluate model.h5 other-machine/corpus.h5 --json\n"
    "  mpirun -n 8 forecost evaluate --leave-one-device-out v100.h5 a100.h5 h100.h5 --json"};

void print(const Evaluation& evaluation, const po::variables_map& values) {
  std::cout << (values.count("json") > 0 ? evaluation_json(evaluation) + "\n"
                                         : evaluation_table(evaluation));
}

ExitCode leave_one_out(const World& world, const po::variables_map& values) {
  // Otherwise a signal ends this verb.
  install_stop_handlers();
  TrainOptions train;
  agree(world, [&] { train = training_options_of(values); });
  const auto files = positionals(values);
  if (files.empty()) {
    throw UsageError("evaluate --leave-one-device-out: expected at least one corpus");
  }
  const auto device = choose_training_device(world, values, train);
  const Dataset data = load_training_data(world, {files.begin(), files.end()}, train, device.get());
  TrainingProgress progress(world);
  const auto evaluation = leave_one_device_out(data, train, world, std::ref(progress));
  progress.finish();
  if (!evaluation) {
    tell_of_stop(world, train);
    return ExitCode::stopped;
  }
  if (world.rank() == 0) print(*evaluation, values);
  return ExitCode::done;
}

ExitCode run(const World& world, const std::vector<std::string>& arguments) {
  po::options_description options;
  options.add_options()("json", "print one JSON object: rows")(
      "leave-one-device-out", "train one model without each device class, and score it on that");
  const auto training = training_options();
  options.add(training);
  po::variables_map values;
  if (!parse(world, help, options, -1, arguments, values)) return ExitCode::done;
  if (values.count("leave-one-device-out") > 0) return leave_one_out(world, values);
  for (const auto& option : training.options()) {
    const std::string& name = option->long_name();
    if (values.count(name) > 0 && !values[name].defaulted()) {
      throw UsageError(fmt::format("--{} needs --leave-one-device-out: a model is trained", name));
    }
  }
  if (world.rank() != 0) return ExitCode::done;
  const auto files = positionals(values);
  if (files.size() < 2) {
    throw UsageError(
        fmt::format("expected a model and at least one corpus; usage: {}", help.usage));
  }
  Model model = load_model(files[0]);
  model.use(best_gemm());
  const Dataset data = load_dataset({files.begin() + 1, files.end()}, model.preset);
  if (data.examples.empty()) throw DataError("evaluate: the corpora have no row with status ok");
  print(evaluate(model, data.examples), values);
  return ExitCode::done;
}

}  // namespace

extern const Verb evaluate_verb{"evaluate", "compare a model with measurements", &run};

}  // namespace forecost::cli
