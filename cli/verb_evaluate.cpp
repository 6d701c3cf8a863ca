#include <iostream>

#include <fmt/format.h>

#include "cli/verb.hpp"
#include "train/dataset.hpp"
#include "train/evaluate.hpp"
#include "train/gemm.hpp"

namespace forecost::cli {
namespace {

constexpr Help help{
    "forecost evaluate MODEL CORPUS... [--json]",
    "Compares a model's predictions with measurements, by operator, device and pass. Layers that "
    "it\n"
    "was trained on are told apart from held-out ones and from devices that it has never seen.",
    "  forecost evaluate model.h5 run/corpus.h5\n"
    "  forecost evaluate model.h5 other-machine/corpus.h5 --json"};

ExitCode run(const World& world, const std::vector<std::string>& arguments) {
  po::options_description options;
  options.add_options()("json", "print one JSON object: rows");
  po::variables_map values;
  if (!parse(world, help, options, -1, arguments, values)) return ExitCode::done;
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
  const Evaluation evaluation = evaluate(model, data.examples);
  std::cout << (values.count("json") > 0 ? evaluation_json(evaluation) + "\n"
                                         : evaluation_table(evaluation));
  return ExitCode::done;
}

}  // namespace

extern const Verb evaluate_verb{"evaluate", "compare a model with measurements", &run};

}  // namespace forecost::cli
