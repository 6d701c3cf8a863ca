#include "collect/collector.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>
#include <unordered_map>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "collect/backend.hpp"
#include "collect/device_group.hpp"
#include "collect/in_flight.hpp"
#include "collect/probe_all_reduce.hpp"
#include "collect/protocol.hpp"
#include "collect/sweep.hpp"
#include "core/hash.hpp"
#include "core/log.hpp"
#include "core/progress.hpp"
#include "core/stop.hpp"
#include "core/table.hpp"
#include "core/units.hpp"
#include "core/version.hpp"
#include "data/corpus/journal.hpp"
#include "data/corpus/merge.hpp"
#include "mpi/agree.hpp"
#include "mpi/scheduler.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// More than this share of crashed, failed or timed-out tasks ends a finished run with exit code 5.
constexpr double tolerated_failures = 0.01;
/// Merging takes at most this share of the time.
constexpr double merge_share = 0.05;
/// A task whose process died this often while measuring it is given up as `crashed`. Once may have
/// been chance: a kill from outside, memory that another program took.
constexpr int deadly = 2;
/// Clocks sink after this long without work, and need this long to rise again.
constexpr double idle_s = 1, ramp_s = 0.5;

DeviceRequest request_of(const World& world, const CollectOptions& options, std::uint64_t seed) {
  return {options.cores, world.local_rank(), world.local_size(),
          world.rank(),  world.size(),       options.replay,
          seed};
}

Plan plan_of(const CollectOptions& options) {
  Plan plan = load_plan(options.sweep);
  if (options.shard.count > 1) {
    std::vector<Task> mine;
    for (auto i = static_cast<std::size_t>(options.shard.index - 1); i < plan.tasks.size();
         i += static_cast<std::size_t>(options.shard.count)) {
      mine.push_back(plan.tasks[i]);
    }
    if (mine.empty()) {
      throw UsageError(fmt::format("--shard {}/{}: the sweep has only {}", options.shard.index,
                                   options.shard.count,
                                   format_counted(static_cast<double>(plan.tasks.size()), "task")));
    }
    plan.tasks = std::move(mine);
  }
  return plan;
}

/// How the devices spent their time.
struct Duty {
  double sampling_s = 0;      ///< in samples and the flushes that they need
  double busy_s = 0;          ///< in tasks, on the device's own clock
  bool virtual_time = false;  ///< that clock says nothing of real time
};

/// This rank's part in the run: it measures, journals and only then reports.
class Measurer {
 public:
  Measurer(const Plan& plan, TimingBackend& backend, InFlight& in_flight, const fs::path& journal,
           const Run& run, int neighbours, std::set<std::string> given_up)
      : plan_(plan),
        backend_(backend),
        in_flight_(in_flight),
        journal_(journal),
        environment_(backend.environment()),
        run_id_(run.id),
        neighbours_(neighbours),
        given_up_(std::move(given_up)) {
    journal_.append(run);
    journal_.append(SweepRecord{plan.sweep_id, plan.name, plan.sweep_text});
    journal_.append(environment_);
    record_device();
  }

  std::optional<TaskReport> execute(std::int64_t index) {
    const Task& task = plan_.tasks[static_cast<std::size_t>(index)];
    const std::string text = task_text(task);
    spdlog::debug("task {}: {}", index, text);
    if (!worked_ || seconds_since(last_end_) > idle_s) backend_.spin(ramp_s);
    const double begin_s = backend_.now_s();
    const Clock::time_point begin = Clock::now();
    const std::string key = task_key(task, backend_.device().device_class);
    std::optional<Measurement> row;
    if (given_up_.contains(key)) {
      row = begin_row(backend_, task);
      row->status = Status::crashed;
      row->reason = fmt::format("its process died {} times while measuring it", deadly);
    } else {
      in_flight_.begin(key);
      row = measure(backend_, task, plan_.rules, hash64(text) ^ plan_.seed);
      in_flight_.end();
    }
    last_end_ = Clock::now();
    worked_ = true;
    if (!row) return std::nullopt;
    record_device();
    row->environment_id = environment_.id();
    row->run_id = run_id_;
    row->concurrent_ranks = neighbours_;
    journal_.append(*row);
    if (row->status != Status::ok) {
      spdlog::debug("task {}: {}: {}", index, name_of(row->status), row->reason);
    }
    const double device_s = backend_.now_s() - begin_s;
    busy_s_ += device_s;
    if (!std::isnan(row->sampling_s)) sampling_s_ += row->sampling_s;
    return TaskReport{seconds_since(begin), device_s, static_cast<int>(row->status)};
  }

  /// Its limits change where a second probe found larger ones.
  void record_device() {
    if (backend_.device() == recorded_device_) return;
    journal_.append(backend_.device());
    recorded_device_ = backend_.device();
  }

  void sync() { journal_.sync(); }
  Duty duty() const {
    return {sampling_s_, busy_s_, backend_.protocol() == Protocol::virtual_clock};
  }

 private:
  const Plan& plan_;
  TimingBackend& backend_;
  InFlight& in_flight_;
  Journal journal_;
  const Environment environment_;
  const std::string run_id_;
  const int neighbours_;
  const std::set<std::string> given_up_;  ///< task keys
  Device recorded_device_;
  Clock::time_point last_end_;
  bool worked_ = false;
  double busy_s_ = 0, sampling_s_ = 0;
};

/// What earlier launches have finished: the status by task key. corpus.h5 may hold rows whose
/// journals are gone.
std::unordered_map<std::string, Status> finished_tasks(const fs::path& directory,
                                                       const std::set<Status>& retry) {
  Corpus known = read_journals(directory);
  const fs::path file = directory / "corpus.h5";
  if (fs::exists(file)) {
    try {
      Corpus merged = read_corpus(file, false);
      std::move(merged.rows.begin(), merged.rows.end(), std::back_inserter(known.rows));
    } catch (const DataError& error) {
      // The journals hold every row; the next merge writes a new file.
      spdlog::warn("{}; going on from the journals", error.what());
    }
  }
  std::unordered_map<std::string, Status> finished;
  for (const Measurement& row : known.rows) {
    if (row.replicate != 0) continue;
    const auto [place, is_new] = finished.emplace(task_key(row.task, row.device_class), row.status);
    if (!is_new && row.status == Status::ok) place->second = Status::ok;
  }
  std::erase_if(finished, [&](const auto& task) { return retry.contains(task.second); });
  return finished;
}

/// The manager's list of what is left to do, and the statuses of what is done.
struct Remaining {
  std::vector<ClassQueue> queues;
  std::set<std::string> given_up;  ///< task keys, one to a line where they travel
  std::map<int, std::int64_t> outcomes;
  std::int64_t done = 0;
};

Remaining remaining_tasks(const Plan& plan, const DeviceGroup& group,
                          const std::unordered_map<std::string, Status>& finished,
                          const std::map<std::string, int>& deaths) {
  Remaining remaining;
  for (const Device& device : group.classes()) {
    ClassQueue queue{device.device_class, {}};
    std::vector<QueuedTask> last;
    for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
      const Task& task = plan.tasks[i];
      auto* tasks = &queue.tasks;
      if (!finished.empty() || !deaths.empty()) {
        const std::string key = task_key(task, device.device_class);
        const auto found = finished.find(key);
        if (const auto died = deaths.find(key); died != deaths.end() && found == finished.end()) {
          tasks = &last;  // what may kill this launch too comes when all else is done
          if (died->second >= deadly) remaining.given_up.insert(key);
        }
        if (found != finished.end()) {
          ++remaining.outcomes[static_cast<int>(found->second)];
          ++remaining.done;
          continue;
        }
      }
      tasks->push_back(
          {static_cast<std::int64_t>(i), expected_measuring_s(task, device, plan.rules)});
    }
    queue.tasks.insert(queue.tasks.end(), last.begin(), last.end());
    remaining.queues.push_back(std::move(queue));
  }
  return remaining;
}

std::string outcomes_text(const std::map<int, std::int64_t>& outcomes) {
  std::string text;
  for (const auto& [status, count] : outcomes) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count,
                        name_of(static_cast<Status>(status)));
  }
  return text;
}

std::int64_t failures_of(const std::map<int, std::int64_t>& outcomes) {
  std::int64_t failures = 0;
  for (const auto& [status, count] : outcomes) {
    if (counts_as_failure(static_cast<Status>(status))) failures += count;
  }
  return failures;
}

/// Progress and merges, on the manager between its other duties.
class Watch {
 public:
  Watch(const CollectOptions& options, const Remaining& before, std::int64_t total)
      : options_(options),
        before_(before),
        progress_("collect", "tasks", static_cast<std::uint64_t>(total)) {
    progress_.update(static_cast<std::uint64_t>(before.done));
  }

  void operator()(const ScheduleState& state) {
    auto outcomes = before_.outcomes;
    for (const auto& [status, count] : state.outcomes) outcomes[status] += count;
    outcomes.erase(static_cast<int>(Status::ok));
    progress_.update(static_cast<std::uint64_t>(before_.done + state.done),
                     outcomes_text(outcomes));
    const double interval_s = std::max(options_.merge_interval_s, merge_s_ / merge_share);
    if (seconds_since(last_merge_) < interval_s) return;
    const Clock::time_point begin = Clock::now();
    // Where many jobs share the directory, another one may be at it.
    const MergeOutcome merge = merge_run_directory(options_.run_directory, 0);
    if (!merge.conflicts.empty() && !told_of_conflicts_) {
      spdlog::warn("runs of {} contradict each other: corpus.h5 stays as it is, the journals go on",
                   options_.run_directory.string());
      told_of_conflicts_ = true;
    }
    last_merge_ = Clock::now();
    merge_s_ = seconds_since(begin);
  }

  void finish() { progress_.finish(); }

 private:
  const CollectOptions& options_;
  const Remaining& before_;
  Progress progress_;
  Clock::time_point last_merge_ = Clock::now();
  double merge_s_ = 0;
  bool told_of_conflicts_ = false;
};

const char* why_stopped(ScheduleEnd end) {
  switch (end) {
    case ScheduleEnd::time_limit:
      return "the next task would not end within --time-limit";
    case ScheduleEnd::budget:
      return "--budget is spent";
    default:
      return "asked to by a signal";
  }
}

std::string joined(const std::set<std::string>& lines) {
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::set<std::string> lines_of(const std::string& text) {
  std::set<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

/// Every rank learns what `root` knows.
std::map<int, std::int64_t> broadcast_outcomes(const World& world,
                                               const std::map<int, std::int64_t>& outcomes,
                                               int root) {
  std::string text;
  for (const auto& [status, count] : outcomes) text += fmt::format("{} {}\n", status, count);
  std::istringstream lines(world.broadcast(text, root));
  std::map<int, std::int64_t> received;
  int status = 0;
  for (std::int64_t count = 0; lines >> status >> count;) received[status] = count;
  return received;
}

/// Sums over all ranks, on every rank.
Duty gather_duty(const World& world, const Duty& own) {
  Duty all;
  for (const auto& text : world.all_gather(
           fmt::format("{:.17g} {:.17g} {:d}", own.sampling_s, own.busy_s, own.virtual_time))) {
    std::istringstream line(text);
    double sampling_s = 0, busy_s = 0;
    bool is_virtual = false;
    line >> sampling_s >> busy_s >> is_virtual;
    all.sampling_s += sampling_s;
    all.busy_s += busy_s;
    all.virtual_time = all.virtual_time || is_virtual;
  }
  return all;
}

void merge_at_end(const fs::path& directory) {
  const MergeOutcome merge = merge_run_directory(directory);
  if (merge.busy) {
    throw EnvironmentError(fmt::format(
        "{0}: another merge into it did not end; all rows are in the journals: 'forecost corpus "
        "merge {0} -o {0}/corpus.h5' when it has",
        directory.string()));
  }
  const auto& conflicts = merge.conflicts;
  if (conflicts.empty()) return;
  for (const std::string& conflict : conflicts) spdlog::error("{}", conflict);
  throw DataError(fmt::format(
      "{}: {} of its runs contradict each other; corpus.h5 stays as it was: move the "
      "journals of the run that you do not trust, and corpus.h5, out of the directory, then "
      "--resume",
      directory.string(), format_counted(static_cast<double>(conflicts.size()), "row")));
}

Run run_record(const World& world, const CollectOptions& options, const Plan& plan,
               const DeviceGroup& group, const std::string& id) {
  return {id,
          {{"version", std::string(version)},
           {"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
           {"sweep", plan.sweep_id},
           {"shard", options.shard.text()},
           {"backend", options.backend},
           {"ranks", std::to_string(world.size())},
           {"devices", std::to_string(group.devices())}}};
}

}  // namespace

ExitCode collect(const World& world, const CollectOptions& options, std::ostream& out) {
  const Clock::time_point start = Clock::now();
  Plan plan;
  std::unique_ptr<TimingBackend> backend;
  DeviceGroup group;
  agree(world, [&] {
    plan = plan_of(options);
    if (options.dedicated_manager && world.size() == 1) {
      throw UsageError(
          "--dedicated-manager needs a second rank to measure: mpirun -n 2 forecost ...");
    }
    if (options.dedicated_manager && world.rank() == 0) return;
    backend = open_backend(options.backend, request_of(world, options, plan.seed));
  });
  // Sharing is found before the seconds of a probe are spent; the second gathering brings what the
  // probe found.
  const auto gather = [&] {
    try {
      group = gather_devices(world, backend.get());
    } catch (const EnvironmentError& error) {
      throw AgreedError(error.code(), error.what());
    }
  };
  gather();
  std::optional<OpenedRun> opened;  // on rank 0
  agree(world, [&] {
    if (world.rank() != 0) return;
    std::set<std::string> names;
    for (const Device& device : group.classes()) names.insert(device.device_class);
    opened = open_run(options.run_directory, plan, options.shard, options.resume, names);
  });
  const std::string run_id = world.broadcast(opened ? opened->id : "");
  const fs::path folder = run_folder(options.run_directory, run_id);
  std::optional<InFlight> in_flight;
  agree(world, [&] {
    log_to_file(world.rank(), folder / fmt::format("log-{}.txt", world.rank()));
    if (backend) {
      in_flight.emplace(folder / fmt::format("in-flight-{}", world.rank()),
                        backend->device().device_class, options.shard);
    }
  });
  opened.reset();
  agree(world, [&] {
    if (backend) backend->probe(brief_probe_s);
  });
  probe_all_reduce(world, backend.get(), brief_probe_s / 4);
  gather();

  std::vector<std::string> classes;
  for (const auto& member : group.members) classes.push_back(member.device.device_class);
  const int manager = manager_of(classes);
  const bool manages = world.rank() == manager;

  std::optional<Measurer> measurer;
  Remaining before;
  agree(world, [&] {
    // A run directory may hold what other shards and classes did; none of it counts but by task
    // key.
    if (manages)
      before = remaining_tasks(plan, group, finished_tasks(options.run_directory, options.retry),
                               deaths(options.run_directory));
    if (options.retry.contains(Status::crashed)) before.given_up.clear();
  });
  const auto given_up = lines_of(world.broadcast(joined(before.given_up), manager));
  agree(world, [&] {
    if (backend) {
      measurer.emplace(plan, *backend, *in_flight, folder / fmt::format("journal-{}", world.rank()),
                       run_record(world, options, plan, group, run_id),
                       group.neighbours(world.rank()), given_up);
    }
  });

  // As launched, not as measured so far: set-up counts into the job's time.
  Schedule schedule{.queues = before.queues,
                    .time_limit_s = options.time_limit_s - seconds_since(start),
                    .budget_device_s = options.budget_device_s};
  ScheduleHooks hooks;
  hooks.execute = [&](std::int64_t index) { return measurer->execute(index); };
  hooks.stop_requested = [] { return stop_signal() != 0; };
  const auto total = static_cast<std::int64_t>(plan.tasks.size() * group.classes().size());
  std::optional<Watch> watch;
  if (manages) {
    watch.emplace(options, before, total);
    hooks.watch = [&](const ScheduleState& state) { (*watch)(state); };
  }
  const Clock::time_point begin = Clock::now();
  const ScheduleState state = run_schedule(world, backend ? backend->device().device_class : "",
                                           std::move(schedule), hooks);
  const double wall_s = seconds_since(begin);
  if (watch) watch->finish();
  if (measurer) measurer->sync();
  world.barrier();

  auto outcomes = before.outcomes;
  for (const auto& [status, count] : state.outcomes) {
    if (manages) outcomes[status] += count;
  }
  outcomes = broadcast_outcomes(world, outcomes, manager);
  const Duty duty = gather_duty(world, measurer ? measurer->duty() : Duty{});
  agree(world, [&] {
    if (world.rank() == 0) merge_at_end(options.run_directory);
  });

  std::int64_t done = 0;
  for (const auto& [status, count] : outcomes) done += count;
  if (world.rank() == 0) {
    out << fmt::format("{}: {} of {}{}{}\n", (options.run_directory / "corpus.h5").string(),
                       format_count(static_cast<double>(done)),
                       format_counted(static_cast<double>(total), "task"),
                       outcomes.empty() ? "" : ": ", outcomes_text(outcomes));
    if (state.done > 0) {
      out << fmt::format(
          "{} on {} in {}: {} configurations per hour; {} of the time in samples (duty cycle)\n",
          format_counted(static_cast<double>(state.done), "task"),
          format_counted(group.devices(), "device"), format_seconds(wall_s),
          format_count(std::round(static_cast<double>(state.done) / wall_s * 3600)),
          format_percent(duty.sampling_s /
                         (duty.virtual_time ? duty.busy_s : wall_s * group.devices())));
    }
  }
  if (state.end != ScheduleEnd::finished) {
    if (world.rank() == 0) {
      const bool too_short = state.done == 0 && (state.end == ScheduleEnd::time_limit ||
                                                 state.end == ScheduleEnd::budget);
      spdlog::warn("stopped early ({}) with {} left; go on{} with: {}", why_stopped(state.end),
                   format_counted(static_cast<double>(total - done), "task"),
                   too_short ? ", with a larger limit," : "", options.resume_command);
    }
    return ExitCode::stopped;
  }
  const std::int64_t failures = failures_of(outcomes);
  if (static_cast<double>(failures) <= tolerated_failures * static_cast<double>(total)) {
    return ExitCode::done;
  }
  if (world.rank() == 0) {
    spdlog::error(
        "{} of {} crashed, failed or timed out ('forecost corpus info {}' tells why); to measure "
        "them "
        "again: --resume --retry failed timeout crashed",
        format_count(static_cast<double>(failures)),
        format_counted(static_cast<double>(total), "task"), options.run_directory.string());
  }
  return ExitCode::failures;
}

void show_plan(const World& world, const CollectOptions& options, std::ostream& out) {
  Plan plan;
  std::vector<Device> devices;
  agree(world, [&] {
    plan = plan_of(options);
    DeviceRequest request = request_of(world, options, plan.seed);
    // A plan for many ranks is looked at from one: every source that --replay lists is opened.
    const auto sources =
        1 + (world.size() == 1 ? std::count(options.replay.begin(), options.replay.end(), ',') : 0);
    for (std::ptrdiff_t i = 0; i < sources; ++i) {
      if (sources > 1) request.rank = static_cast<int>(i);
      if (const auto backend = open_backend(options.backend, request)) {
        devices.push_back(backend->device());
      }
    }
  });
  const auto classes = gather_classes(world, devices);
  if (world.rank() != 0) return;

  std::map<std::pair<std::string, std::string>, std::int64_t> counts;
  for (const Task& task : plan.tasks) {
    ++counts[{std::string(task.layer.op().name), std::string(name_of(task.pass))}];
  }
  TextTable tasks({"operator", "pass", ">tasks"});
  for (const auto& [key, count] : counts) {
    tasks.add({key.first, key.second, format_count(static_cast<double>(count))});
  }
  tasks.rule();
  tasks.add({"all", "", format_count(static_cast<double>(plan.tasks.size()))});
  out << fmt::format("Sweep {} ({}), shard {}, seed {}\n\n", plan.name, plan.sweep_id,
                     options.shard.text(), plan.seed)
      << tasks.str() << "\n";

  if (plan.skipped.empty()) {
    out << "Nothing is skipped by the sweep's caps.\n\n";
  } else {
    TextTable skips({"operator", "pass", ">skipped", "why"});
    for (const PlanSkip& skip : plan.skipped) {
      skips.add({skip.op, skip.pass, format_count(static_cast<double>(skip.count)), skip.reason});
    }
    out << skips.str() << "\n";
  }

  TextTable hours(
      {"device class", ">tasks", ">expected on one device", ">device hours", ">too large for it"});
  for (const Device& device : classes) {
    double seconds = 0;
    std::int64_t too_large = 0;
    for (const Task& task : plan.tasks) {
      if (task.work().bytes() > device[Attribute::memory_bytes]) {
        ++too_large;
      } else {
        seconds += expected_measuring_s(task, device, plan.rules);
      }
    }
    hours.add({device.device_class, format_count(static_cast<double>(plan.tasks.size())),
               format_seconds(seconds), fmt::format("{:.2f}", seconds / 3600),
               format_count(static_cast<double>(too_large))});
  }
  out << hours.str();
}

}  // namespace forecost
