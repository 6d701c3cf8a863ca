#include "cli/training.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "core/stop.hpp"
#include "core/units.hpp"
#include "mpi/agree.hpp"
#include "train/gemm.hpp"

namespace forecost::cli {

namespace fs = std::filesystem;

namespace {

template <class T>
T positive(const po::variables_map& values, const char* name, T fallback) {
  if (values.count(name) == 0) return fallback;
  const T value = values[name].as<T>();
  if (value < 1) throw UsageError(fmt::format("--{} {}: expected at least 1", name, value));
  return value;
}

}  // namespace

po::options_description training_options() {
  po::options_description all;
  all.add_options()("preset", po::value<std::string>()->default_value("default"),
                    "default or justus2018")(
      "device", po::value<std::string>()->default_value("auto"), "where to train: auto or cpu")(
      "seed", po::value<std::int64_t>()->default_value(1), "of split, weights and order")(
      "epochs", po::value<int>(), "passes over the rows (the preset's own unless told)")(
      "batch", po::value<std::int64_t>(), "rows of a step, over all ranks of a group")(
      "ranks-per-model", po::value<int>(),
      "ranks that share the steps of one network; groups of so many train networks side by side "
      "(as few as keep all ranks busy unless told)")(
      "deterministic", "the same bits on any number of ranks; slower")(
      "checkpoint", po::value<std::string>(), "a directory for checkpoints")(
      "resume", "continue from the checkpoint, if there is one")(
      "collective-timeout", po::value<double>()->default_value(default_collective_timeout_s),
      "seconds after which a rank that does not answer is presumed dead; more than an epoch takes");
  return all;
}

TrainOptions training_options_of(const po::variables_map& values) {
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
  options.epochs = positive<int>(values, "epochs", 0);
  options.batch = positive<std::int64_t>(values, "batch", 0);
  options.ranks_per_model = positive<int>(values, "ranks-per-model", 0);
  options.collective_timeout_s = positive_number(values, "collective-timeout");
  if (values.count("checkpoint") > 0)
    options.checkpoint_directory = values["checkpoint"].as<std::string>();
  options.resume = values.count("resume") > 0;
  if (options.resume && options.checkpoint_directory.empty()) {
    throw UsageError("--resume needs --checkpoint DIR, the directory of the checkpoint");
  }
  return options;
}

Dataset load_training_data(const World& world, const std::vector<fs::path>& corpora,
                           const TrainOptions& options) {
  Dataset data;
  agree(world, [&] { data = load_dataset(corpora, options.preset); });
  // A run that goes on shows each rank another moment of itself.
  const auto read = world.all_gather(fmt::format("{}", fmt::join(data.corpus_hashes, " ")));
  agree(world, [&] {
    if (std::adjacent_find(read.begin(), read.end(), std::not_equal_to<>()) == read.end()) return;
    throw DataError(
        "the corpora changed while the ranks read them: of a run that goes on, train on what "
        "'forecost corpus merge RUN_DIR -o CORPUS.h5' makes");
  });
  if (world.rank() == 0) {
    spdlog::info("{}, preset {}, {}, matrix products by {}",
                 format_counted(static_cast<double>(data.examples.size()), "row"), options.preset,
                 format_counted(world.size(), "rank"), best_gemm().name());
  }
  return data;
}

void TrainingProgress::operator()(const TrainProgress& now) {
  if (!progress_) progress_.emplace("train", "epochs", now.epochs, silent_);
  std::string note;
  if (!now.part.empty()) {
    note = fmt::format("{}, loss {:.3g}", now.part, now.loss);
  } else if (now.done < now.epochs) {
    note = "waiting for other groups";
  }
  progress_->update(static_cast<std::uint64_t>(now.done), note);
}

void TrainingProgress::finish() {
  if (progress_) progress_->finish();
}

void tell_of_stop(const World& world, const TrainOptions& options) {
  if (world.rank() != 0) return;
  // The signal may have come to another rank.
  const int signal = stop_signal();
  spdlog::warn("stopped by {}; {}", signal != 0 ? fmt::format("signal {}", signal) : "another rank",
               options.checkpoint_directory.empty()
                   ? "without --checkpoint nothing was kept"
                   : "run the same command with --resume to continue");
}

}  // namespace forecost::cli
