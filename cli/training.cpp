#include "cli/training.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "collect/backends/cuda/nvml.hpp"
#include "core/stop.hpp"
#include "core/units.hpp"
#include "mpi/agree.hpp"
#include "train/cuda/cuda_engine.hpp"
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
      "device", po::value<std::string>()->default_value("auto"),
      "where to train: cpu, cuda (a GPU for each rank), or auto: cuda where that can be had")(
      "precision", po::value<std::string>()->default_value("f32"),
      "of matrix products on GPUs: f32, tf32 or bf16; parameters and sums stay f32")(
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
  options.seed = static_cast<std::uint64_t>(count_of(values, "seed", 0));
  options.sharing = values.count("deterministic") > 0 ? Sharing::deterministic : Sharing::fast;
  options.epochs = positive<int>(values, "epochs", 0);
  options.batch = positive<std::int64_t>(values, "batch", 0);
  options.ranks_per_model = positive<int>(values, "ranks-per-model", 0);
  options.collective_timeout_s = positive_number(values, "collective-timeout");
  if (values.count("checkpoint") > 0) {
    options.checkpoint_directory = values["checkpoint"].as<std::string>();
    if (options.checkpoint_directory.empty()) {
      throw UsageError("--checkpoint: expected a directory, found nothing: is a variable unset?");
    }
    if (fs::exists(options.checkpoint_directory) &&
        !fs::is_directory(options.checkpoint_directory)) {
      throw UsageError(fmt::format("--checkpoint {}: expected a directory, it is a file",
                                   options.checkpoint_directory.string()));
    }
  }
  options.resume = values.count("resume") > 0;
  if (options.resume && options.checkpoint_directory.empty()) {
    throw UsageError("--resume needs --checkpoint DIR, the directory of the checkpoint");
  }
  return options;
}

namespace {

std::string one_of(const po::variables_map& values, const char* name, const char* kind,
                   const std::vector<std::string>& known) {
  const auto& value = values[name].as<std::string>();
  if (std::find(known.begin(), known.end(), value) == known.end()) {
    throw UsageError(unknown_name(kind, value, known));
  }
  return value;
}

/// Null where a rank has no GPU of its own: silently where there is none at all, with a warning
/// where there is one that cannot be used so.
std::unique_ptr<TrainingDevice> training_device_if_any(const World& world) {
  bool sees_gpu = true;
  try {
    cuda::openable_devices(cuda::module_folder());
  } catch (const cuda::UnusableGpu&) {  // told below
  } catch (const cuda::NoGpu&) {
    sees_gpu = false;
  } catch (const EnvironmentError&) {
    const auto nvml = cuda::Nvml::open();
    sees_gpu = nvml && nvml->gpus() > 0;
  }
  if (world.all_max(sees_gpu ? 1 : 0) == 0) return nullptr;
  try {
    return open_training_device(world);
  } catch (const AgreedError& error) {
    if (error.code() != ExitCode::environment) throw;
    if (world.rank() == 0) {
      spdlog::warn("training on CPUs, although there is a GPU: {}", error.what());
    }
    return nullptr;
  }
}

}  // namespace

std::unique_ptr<TrainingDevice> choose_training_device(const World& world,
                                                       const po::variables_map& values,
                                                       TrainOptions& options) {
  const std::string device = one_of(values, "device", "training device", {"auto", "cpu", "cuda"});
  const std::string precision = one_of(values, "precision", "precision", {"f32", "tf32", "bf16"});
  const bool exact = options.sharing == Sharing::deterministic;
  if (device == "cuda" && exact) {
    throw UsageError(
        "--deterministic with --device cuda: sums in an order of their own are a CPU's; leave one "
        "of both out");
  }
  std::unique_ptr<TrainingDevice> chosen;
  if (device == "cuda") chosen = open_training_device(world);
  if (device == "auto" && !exact) chosen = training_device_if_any(world);
  if (!chosen) {
    if (precision != "f32") {
      throw UsageError(
          fmt::format("--precision {}: a CPU trains in f32; it takes --device cuda", precision));
    }
    return nullptr;
  }
  options.engine = cuda_engines(*chosen, precision == "bf16"   ? cuda::Precision::bf16
                                         : precision == "tf32" ? cuda::Precision::tf32
                                                               : cuda::Precision::f32);
  options.group = nccl_collectives(*chosen);
  return chosen;
}

Dataset load_training_data(const World& world, const std::vector<fs::path>& corpora,
                           const TrainOptions& options, const TrainingDevice* device) {
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
    spdlog::info("{}, preset {}, {}, {}",
                 format_counted(static_cast<double>(data.examples.size()), "row"), options.preset,
                 format_counted(world.size(), "rank"),
                 device == nullptr ? fmt::format("matrix products by {}", best_gemm().name())
                                   : fmt::format("on {}", device->facts().name));
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
