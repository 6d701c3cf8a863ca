#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <iostream>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "cli/verb.hpp"
#include "collect/collector.hpp"
#include "mpi/agree.hpp"

namespace forecost::cli {

namespace {

constexpr Help help{
    "forecost collect SWEEP -o RUN_DIR [options]",
    "Times the layers that a sweep (a shipped one by its name, or a TOML file) lists on the\n"
    "devices of this world: one rank, one device. Start it under mpirun or srun for many devices\n"
    "and nodes. Every finished row is journalled at once; RUN_DIR/corpus.h5 is written at\n"
    "intervals and at the end. A killed or stopped run goes on with --resume. SIGUSR1, SIGTERM\n"
    "and SIGINT abandon what a rank is measuring, which --resume measures anew; --time-limit and\n"
    "--budget let it end. All of them exit with 75, after a last merge into corpus.h5.",
    "  forecost collect quickstart --plan-only\n"
    "  mpirun -n 2 forecost collect quickstart -o runs/quickstart\n"
    "  srun --mpi=pmix forecost collect justus2018 -o runs/justus --resume --time-limit 3500\n"
    "  mpirun -n 4 forecost collect my-sweep.toml -o rehearsal --replay v100,h100"};

Shard parse_shard(const std::string& text) {
  Shard shard;
  const char *begin = text.data(), *end = begin + text.size();
  const char* slash = std::find(begin, end, '/');
  const auto whole = [](const char* from, const char* to, int& value) {
    const auto [rest, error] = std::from_chars(from, to, value);
    return error == std::errc() && rest == to;
  };
  if (slash == end || !whole(begin, slash, shard.index) || !whole(slash + 1, end, shard.count) ||
      shard.index < 1 || shard.index > shard.count) {
    throw UsageError(fmt::format("--shard {}: expected i/n with 1 <= i <= n, such as 2/8", text));
  }
  return shard;
}

/// In single quotes where a shell would read more than a word into it.
std::string quoted(const std::string& word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string resume_command(const World& world, const std::vector<std::string>& arguments,
                           bool resumes) {
  std::string command = world.size() > 1 ? fmt::format("mpirun -n {} ", world.size()) : "";
  if (world.size() > 1 && std::getenv("SLURM_STEP_ID") != nullptr) {
    command = fmt::format("srun --mpi=pmix -n {} ", world.size());
  }
  command += "forecost collect";
  for (const auto& argument : arguments) command += " " + quoted(argument);
  return command + (resumes ? "" : " --resume");
}

/// How a process tells the next one what was done so far.
constexpr const char* so_far_variable = "FORECOST_COLLECT_SO_FAR";

/// Replaces this process by a new one of the same command that goes on with what is left of its
/// limits: what a broken device has left in this one goes with it. Returns only if it cannot.
void restart(const std::vector<std::string>& arguments, const CollectOptions& collecting,
             double elapsed_s, const CollectResult& result) {
  std::vector<std::string> words{"forecost", "collect"};
  for (auto word = arguments.begin(); word != arguments.end(); ++word) {
    if (*word == "--resume" || word->starts_with("--time-limit=") || word->starts_with("--budget="))
      continue;
    if (*word == "--time-limit" || *word == "--budget") {
      ++word;
      continue;
    }
    words.push_back(*word);
  }
  words.emplace_back("--resume");
  if (std::isfinite(collecting.time_limit_s)) {
    words.push_back(fmt::format("--time-limit={}", collecting.time_limit_s - elapsed_s));
  }
  if (std::isfinite(collecting.budget_device_s)) {
    words.push_back(
        fmt::format("--budget={}", (collecting.budget_device_s - result.device_s) / 3600));
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::cout.flush();
  spdlog::default_logger()->flush();
  ::setenv(so_far_variable, result.so_far.text().c_str(), 1);
  ::execv("/proc/self/exe", argv.data());
}

ExitCode run(const World& world, const std::vector<std::string>& arguments) {
  po::options_description options;
  // clang-format off
  options.add_options()
      ("output,o", po::value<std::string>(), "run directory")
      ("backend", po::value<std::string>()->default_value("auto"), "auto, cpu, cuda, replay")
      ("replay", po::value<std::string>()->default_value(""),
       "implies --backend replay: what to play, a comma-separated list given to ranks in turn: "
       "shipped devices, device files, a corpus.h5 or run directory, or none for a rank without a "
       "device; each with options such as v100:noise=0.05:fail=0.1 (docs/measuring.md lists them)")
      ("cores", po::value<int>()->default_value(0), "processors of a CPU device; 0: those bound")
      ("layout", po::value<std::string>()->default_value(""),
       "of images on a GPU: nchw (the default), nhwc. Each takes a run directory of its own; 'forecost corpus merge' puts both into one corpus")
      ("dedicated-manager", "rank 0 measures nothing: it hands out work and merges")
      ("shard", po::value<std::string>()->default_value("1/1"), "i/n: the i-th of n parts")
      ("resume", "go on with a run directory (or begin it)")
      ("retry", po::value<std::vector<std::string>>()->multitoken()->composing(),
       "with --resume: statuses whose tasks are measured again, such as failed timeout crashed")
      ("plan-only", "show what would be measured, and stop")
      ("time-limit", po::value<double>(),
       "seconds from the start of the program: begin nothing that would end later. The last merge "
       "comes on top (docs/measuring.md)")
      ("budget", po::value<double>(), "device hours, over all devices")
      ("merge-interval", po::value<double>()->default_value(60), "seconds between merges");
  // clang-format on
  po::variables_map values;
  CollectOptions collecting;
  bool asked_for_help = false;
  agree(world, [&] {
    asked_for_help = !parse(world, help, options, 1, arguments, values);
    if (asked_for_help) return;
    const auto files = positionals(values);
    if (files.empty()) throw UsageError(fmt::format("no sweep; usage: {}", help.usage));
    collecting.sweep = files.front();
    if (values.count("output") > 0) {
      collecting.run_directory = values["output"].as<std::string>();
      if (collecting.run_directory.empty()) {
        throw UsageError("-o: the name of the run directory is empty");
      }
    } else if (values.count("plan-only") == 0) {
      throw UsageError(fmt::format("no run directory (-o); usage: {}", help.usage));
    }
    collecting.backend = values["backend"].as<std::string>();
    collecting.replay = values["replay"].as<std::string>();
    if (collecting.replay.empty() && !values["replay"].defaulted()) {
      throw UsageError(
          "--replay is empty: expected devices, a corpus.h5, or only --backend replay");
    }
    collecting.backend = backend_of(collecting.backend, collecting.replay);
    collecting.cores = cores_of(values);
    collecting.layout = layout_of(values, collecting.backend);
    collecting.dedicated_manager = values.count("dedicated-manager") > 0;
    collecting.shard = parse_shard(values["shard"].as<std::string>());
    collecting.resume = values.count("resume") > 0;
    if (values.count("retry") > 0) {
      if (!collecting.resume) throw UsageError("--retry needs --resume");
      for (const auto& name : values["retry"].as<std::vector<std::string>>()) {
        collecting.retry.insert(parse_enum<Status>(name));
      }
      if (collecting.retry.contains(Status::ok)) {
        throw UsageError("--retry ok: what was measured well is kept");
      }
    }
    if (values.count("time-limit") > 0)
      collecting.time_limit_s = positive_number(values, "time-limit");
    if (values.count("budget") > 0) {
      collecting.budget_device_s = 3600 * positive_number(values, "budget");
    }
    collecting.merge_interval_s = positive_number(values, "merge-interval");
    collecting.resume_command = resume_command(world, arguments, collecting.resume);
  });
  if (asked_for_help) return ExitCode::done;
  if (values.count("plan-only") > 0) {
    show_plan(world, collecting, std::cout);
    return ExitCode::done;
  }
  collecting.began = world.began();
  if (const char* so_far = std::getenv(so_far_variable)) {
    collecting.so_far = SoFar::of(so_far);
    ::unsetenv(so_far_variable);
  }
  const CollectResult result = collect(world, collecting, std::cout);
  const double elapsed_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - world.began()).count();
  if (result.restart && elapsed_s < collecting.time_limit_s &&
      result.device_s < collecting.budget_device_s) {
    restart(arguments, collecting, elapsed_s, result);
  }
  if (result.restart) spdlog::warn("stopped early; go on with: {}", collecting.resume_command);
  return result.code;
}

}  // namespace

extern const Verb collect_verb;
const Verb collect_verb{"collect", "time layers on devices into a corpus", &run, true};

}  // namespace forecost::cli
