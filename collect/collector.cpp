#include "collect/collector.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
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
#include "collect/gang.hpp"
#include "collect/in_flight.hpp"
#include "collect/measurer.hpp"
#include "collect/probe_all_reduce.hpp"
#include "collect/sweep.hpp"
#include "core/hash.hpp"
#include "core/log.hpp"
#include "core/progress.hpp"
#include "core/random.hpp"
#include "core/stop.hpp"
#include "core/table.hpp"
#include "core/units.hpp"
#include "core/version.hpp"
#include "data/corpus/journal.hpp"
#include "data/corpus/merge.hpp"
#include "data/corpus/repeats.hpp"
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
/// A device that answers nothing any more gets a new process, unless it ended so many in a row
/// after fewer than so many tasks each: by then it costs more time than it gives.
constexpr int most_fruitless = 5;
constexpr std::int64_t few_tasks = 10;
/// Merging takes at most this share of the time.
constexpr double merge_share = 0.05;
/// No warning during a run of this many shared or throttled rows, nor of this share of all.
constexpr std::int64_t few_disturbed = 5;
constexpr double few_disturbed_share = 0.01;
/// A reference that changed by more than this is told.
constexpr double drift_told = 0.05;
DeviceRequest request_of(const World& world, const CollectOptions& options, std::uint64_t seed,
                         bool manager_on_host) {
  return {options.cores, world.local_rank(), world.local_size(),
          world.rank(),  world.size(),       options.replay,
          seed,          options.layout,     manager_on_host};
}

/// Whether rank 0 is a dedicated manager, and on this rank's host. All ranks call it.
bool has_manager(const World& world, const CollectOptions& options) {
  return options.dedicated_manager && world.broadcast(world.host()) == world.host();
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
                                   options.shard.count, format_counted(plan.tasks.size(), "task")));
    }
    plan.tasks = std::move(mine);
  }
  return plan;
}

/// Names a planned measurement in what earlier launches have left.
std::string planned_key(const Task& task, std::string_view device_class, std::int64_t replicate) {
  return fmt::format("{} {}", replicate, task_key(task, device_class));
}

struct Finished {
  std::unordered_map<std::string, Status> statuses;  ///< by planned key
  std::int64_t next_reference_replicate = first_reference_replicate;
};

/// The layout of images that a backend measures in is no part of a task's key: what is there in the
/// other one would count as done.
void refuse_other_layout(const fs::path& directory, const std::vector<Environment>& known,
                         const std::string& layout) {
  for (const Environment& environment : known) {
    const auto found = environment.facts.find("layout");
    if (layout.empty() || found == environment.facts.end() || found->second == layout) continue;
    throw DataError(fmt::format(
        "{} was measured with --layout {}, not {}: go on with that, or name another run directory; "
        "'forecost corpus merge' puts both into one corpus",
        directory.string(), found->second, layout));
  }
}

/// What earlier launches have finished. corpus.h5 may hold rows whose journals are gone. `layout`
/// is that of this launch, empty if its devices have none.
Finished finished_tasks(const fs::path& directory, const std::set<Status>& retry,
                        const std::string& layout) {
  Corpus known = read_journals(directory);
  const fs::path file = directory / "corpus.h5";
  if (fs::exists(file)) {
    try {
      Corpus merged = read_corpus(file, false);
      std::move(merged.rows.begin(), merged.rows.end(), std::back_inserter(known.rows));
      known.environments.insert(known.environments.end(), merged.environments.begin(),
                                merged.environments.end());
    } catch (const DataError& error) {
      // The journals hold every row; the next merge writes a new file.
      spdlog::warn("{}; going on from the journals", error.what());
    }
  }
  refuse_other_layout(directory, known.environments, layout);
  Finished finished;
  for (const Measurement& row : known.rows) {
    if (row.replicate >= first_reference_replicate) {
      finished.next_reference_replicate =
          std::max(finished.next_reference_replicate, row.replicate + 1);
      continue;
    }
    const auto [place, is_new] = finished.statuses.emplace(
        planned_key(row.task, row.device_class, row.replicate), row.status);
    // Of two failures the later counts: what was shared may have been measured again.
    if (!is_new && place->second != Status::ok) place->second = row.status;
  }
  std::erase_if(finished.statuses, [&](const auto& task) { return retry.contains(task.second); });
  return finished;
}

/// The manager's list of what is left to do, and the statuses of what is done.
struct Remaining {
  std::vector<ClassQueue> queues;
  /// Collectives of all classes, which need several devices: their class's number and the
  /// schedule's number, one pair to a line where they travel.
  std::vector<std::pair<std::size_t, std::int64_t>> collectives;
  std::set<std::string> given_up;  ///< task keys, one to a line where they travel
  std::int64_t next_reference_replicate = first_reference_replicate;
  Outcomes outcomes;
  std::int64_t done = 0;
};

/// The tasks in the order in which a pass measures them: each in another shuffle than the one
/// before, so that what disturbs a task's neighbours in one does not in the next.
std::vector<std::size_t> order_of_pass(const Plan& plan, std::int64_t replicate) {
  std::vector<std::size_t> order(plan.tasks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (replicate > 0) {
    Random(plan.seed, hash64(fmt::format("order {}", replicate))).shuffle(order);
  }
  return order;
}

Remaining remaining_tasks(const Plan& plan, const DeviceGroup& group, const Finished& finished,
                          const std::map<std::string, int>& deaths) {
  Remaining remaining;
  remaining.next_reference_replicate = finished.next_reference_replicate;
  for (const Device& device : group.classes()) {
    ClassQueue queue{device.device_class, {}};
    std::vector<QueuedTask> last;
    for (std::int64_t replicate = 0; replicate < plan.rules.replicates; ++replicate) {
      for (const std::size_t i : order_of_pass(plan, replicate)) {
        const Task& task = plan.tasks[i];
        auto* tasks = &queue.tasks;
        if (!finished.statuses.empty()) {
          const auto found =
              finished.statuses.find(planned_key(task, device.device_class, replicate));
          if (found != finished.statuses.end()) {
            ++remaining.outcomes[static_cast<int>(found->second)];
            ++remaining.done;
            continue;
          }
        }
        if (!deaths.empty()) {
          const std::string key = task_key(task, device.device_class);
          if (const auto died = deaths.find(key); died != deaths.end()) {
            tasks = &last;  // what may kill this launch too comes when all else is done
            if (died->second >= deadly) remaining.given_up.insert(key);
          }
        }
        const std::int64_t index = index_of(plan, {i, replicate});
        if (is_collective(task)) {
          remaining.collectives.emplace_back(remaining.queues.size(), index);
          continue;
        }
        tasks->push_back({index, expected_measuring_s(task, device, plan.rules)});
      }
    }
    queue.tasks.insert(queue.tasks.end(), last.begin(), last.end());
    remaining.queues.push_back(std::move(queue));
  }
  return remaining;
}

void add(const Outcomes& other, Outcomes& sum) {
  for (const auto& [status, count] : other) sum[status] += count;
}

std::int64_t count_of(const Outcomes& outcomes) {
  std::int64_t count = 0;
  for (const auto& outcome : outcomes) count += outcome.second;
  return count;
}

std::string outcomes_text(const Outcomes& outcomes) {
  std::string text;
  for (const auto& [status, count] : outcomes) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count,
                        name_of(static_cast<Status>(status)));
  }
  return text;
}

std::int64_t failures_of(const Outcomes& outcomes) {
  std::int64_t failures = 0;
  for (const auto& [status, count] : outcomes) {
    if (counts_as_failure(static_cast<Status>(status))) failures += count;
  }
  return failures;
}

/// Whether a run has warned of rows that something disturbed.
struct Told {
  bool others = false, heat = false;
};

/// Once, and only where it is more than a daemon's tick or a moment's heat.
void warn_of(const ScheduleState& state, Status status, std::int64_t few, bool& told) {
  const auto found = state.outcomes.find(static_cast<int>(status));
  if (told || found == state.outcomes.end()) return;
  const double share = static_cast<double>(found->second) / static_cast<double>(state.done);
  if (found->second <= few || share < few_disturbed_share) return;
  const std::string tasks =
      fmt::format("{} of {} tasks so far ({})", format_count(static_cast<double>(found->second)),
                  format_count(static_cast<double>(state.done)), format_percent(share));
  if (status == Status::shared) {
    spdlog::warn(
        "other programs take time on the device: {} were disturbed and become status shared; "
        "'forecost devices' tells what else runs",
        tasks);
  } else {
    spdlog::warn(
        "a device's clock is held back: {} become status throttled, and models leave them out; "
        "'forecost devices' and the rows' reasons tell by what. When it is cool: --resume "
        "--retry throttled",
        tasks);
  }
  told = true;
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
    Outcomes outcomes = before_.outcomes;
    add(state.outcomes, outcomes);
    outcomes.erase(static_cast<int>(Status::ok));
    progress_.update(static_cast<std::uint64_t>(before_.done + state.done),
                     outcomes_text(outcomes));
    warn_of(state, Status::shared, few_disturbed, told_.others);
    warn_of(state, Status::throttled, few_disturbed, told_.heat);
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

  /// `done` of them, after all else.
  void collectives(const ScheduleState& state, std::int64_t done) {
    progress_.update(static_cast<std::uint64_t>(before_.done + state.done + done), "collectives");
  }
  void finish() { progress_.finish(); }
  const Told& told() const { return told_; }

 private:
  const CollectOptions& options_;
  const Remaining& before_;
  Progress progress_;
  Clock::time_point last_merge_ = Clock::now();
  double merge_s_ = 0;
  bool told_of_conflicts_ = false;
  Told told_;
};

const char* why_stopped(ScheduleEnd end, int signal) {
  switch (end) {
    case ScheduleEnd::finished:  // all but collectives
      if (signal != 0) break;
      [[fallthrough]];
    case ScheduleEnd::time_limit:
      return "the next task would not end within --time-limit";
    case ScheduleEnd::budget:
      return "--budget is spent";
    case ScheduleEnd::stop_requested:
      break;
  }
  return "asked to by a signal";
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

/// Over all ranks, on every rank.
Outcomes sum_outcomes(const World& world, const Outcomes& own) {
  std::string text;
  for (const auto& [status, count] : own) text += fmt::format("{} {}\n", status, count);
  Outcomes sum;
  for (const std::string& of_rank : world.all_gather(text)) {
    std::istringstream lines(of_rank);
    int status = 0;
    for (std::int64_t count = 0; lines >> status >> count;) sum[status] += count;
  }
  std::erase_if(sum, [](const auto& outcome) { return outcome.second == 0; });
  return sum;
}

std::string text_of(const Duty& duty) {
  return fmt::format("{:.17g} {:.17g} {:.17g} {:.17g}", duty.sampling_s, duty.warm_up_s,
                     duty.planning_s, duty.busy_s);
}

std::istream& operator>>(std::istream& line, Duty& duty) {
  return line >> duty.sampling_s >> duty.warm_up_s >> duty.planning_s >> duty.busy_s;
}

Duty sum_duty(const World& world, const Duty& own) {
  Duty sum;
  for (const std::string& of_rank : world.all_gather(text_of(own))) {
    std::istringstream line(of_rank);
    Duty duty;
    line >> duty;
    sum += duty;
  }
  return sum;
}

/// How fast it went, and where the devices' time went; a virtual clock has no idle time. `unit` is
/// what was `done`: tasks, or measurements where each task has several.
std::string pace_text(std::int64_t done, const std::string& unit, double wall_s, int devices,
                      const Duty& duty, bool is_virtual) {
  const double all_s = is_virtual ? duty.busy_s : wall_s * devices;
  std::string text = fmt::format(
      "{} on {} in {}: {} {} per hour; duty cycle {} (samples and their flushes), warm-up {}, "
      "planning {}",
      format_counted(done, unit), format_counted(devices, "device"), format_seconds(wall_s),
      format_count(std::round(static_cast<double>(done) / wall_s * 3600)),
      unit == "task" ? "configurations" : unit + "s", format_percent(duty.sampling_s / all_s),
      format_percent(duty.warm_up_s / all_s), format_percent(duty.planning_s / all_s));
  if (!is_virtual) text += fmt::format(", idle {}", format_percent(1 - duty.busy_s / all_s));
  return text + "\n";
}

/// How well tasks repeat that were measured more than once; warns where this launch's devices
/// drifted.
std::string repeats_text(const fs::path& corpus, const std::string& run_id) {
  const Repeats repeats = find_repeats(read_corpus(corpus, false).rows);
  for (const Drift& drift : repeats.drifts) {
    if (drift.run_id != run_id || drift.spread() <= drift_told) continue;
    spdlog::warn("a device drifted: {}", drift.text());
  }
  return repeats.text();
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
      directory.string(), format_counted(conflicts.size(), "row")));
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

std::string text_of(const std::vector<std::pair<std::size_t, std::int64_t>>& collectives) {
  std::string text;
  for (const auto& [device_class, index] : collectives) {
    text += fmt::format("{} {}\n", device_class, index);
  }
  return text;
}

/// Collectives, when the devices have done their own tasks: one after the other, all ranks in step.
/// `may_begin` says so of a task's expected seconds. Adds to `own` the outcomes of the rows that
/// this rank wrote; false if they did not all end.
bool measure_collectives(const World& world, const Plan& plan, const DeviceGroup& group,
                         std::istringstream collectives, TimingBackend* backend, Measurer* measurer,
                         const std::function<bool(double expected_s)>& may_begin,
                         const std::function<void(std::int64_t done)>& watch, Outcomes& own) {
  const std::vector<Device> classes = group.classes();
  std::map<std::vector<int>, std::unique_ptr<Gang>> gangs;
  std::size_t number = 0;
  std::int64_t done = 0;
  for (std::int64_t index = 0; collectives >> number >> index; watch(++done)) {
    const Device& device = classes[number];
    const Task& task = plan.tasks[planned(plan, index).task];
    const bool stop = !may_begin(expected_measuring_s(task, device, plan.rules)) ||
                      (measurer != nullptr && measurer->poisoned());
    if (world.all_max(stop ? 1 : 0) != 0) return false;
    const GangMembers members = gang_members(group, device.device_class, task);
    const auto in = std::find(members.ranks.begin(), members.ranks.end(), world.rank());
    std::optional<Status> status;
    bool writes = false;
    if (members.ranks.empty()) {
      writes = group.first_of(device.device_class) == world.rank();
      if (writes) status = measurer->refuse_collective(index, members.why_not);
    } else if (in != members.ranks.end()) {
      auto& gang = gangs[members.ranks];
      if (!gang) gang = meet_gang(world, members.ranks, *backend);
      writes = in == members.ranks.begin();
      status = measurer->execute_collective(index, *gang, gang_record(group, members.ranks));
    }
    if (status) ++own[static_cast<int>(*status)];
    if (world.all_max(writes && !status ? 1 : 0) != 0) return false;
  }
  return true;
}

/// What comes before measuring: steps that end the run in order where --time-limit is over, or a
/// signal has come, before they are.
class SetUp {
 public:
  SetUp(const World& world, const CollectOptions& options) : world_(world), options_(options) {}

  /// On all ranks; see agree().
  void step(std::string_view doing, const std::function<void()>& act = {}) const {
    agree(world_, [&] {
      if (act) act();
      check(doing);
    });
  }
  /// Throws where the run must not go on; long steps call it now and then.
  void check(std::string_view doing) const {
    if (!must_stop()) return;
    throw Error(ExitCode::stopped,
                fmt::format("{} while {}",
                            stop_signal() != 0
                                ? "asked to by a signal"
                                : fmt::format("--time-limit {} was over", options_.time_limit_s),
                            doing));
  }
  bool must_stop() const { return stop_signal() != 0 || left_s() <= 0; }
  double left_s() const { return options_.time_limit_s - seconds_since(options_.began); }

 private:
  const World& world_;
  const CollectOptions& options_;
};

/// Finds out what the devices reach, each by itself and all ranks together.
void probe_devices(const World& world, const SetUp& set_up, TimingBackend* backend, int devices) {
  const bool real = backend != nullptr && backend->protocol() != Protocol::virtual_clock;
  if (world.all_max(real ? 1 : 0) != 0 && world.rank() == 0) {
    spdlog::info("probing {}: some {:.0f} s, more where other programs run",
                 format_counted(devices, "device"), std::ceil(1.25 * brief_probe_s));
  }
  constexpr std::string_view probing = "probing devices";
  ProbeReport report;
  set_up.step(probing, [&] {
    if (backend == nullptr) return;
    report =
        backend->probe(std::min(brief_probe_s, set_up.left_s()), [&] { set_up.check(probing); });
  });
  warn_together(world, report.warnings);
  probe_all_reduce(world, backend, brief_probe_s / 4, [&] { return set_up.must_stop(); });
  set_up.step("probing the all-reduce of all ranks");
}

/// Of images; empty where the device has no choice of it.
std::string layout_of(const TimingBackend* backend) {
  if (backend == nullptr) return {};
  const Environment environment = backend->environment();
  const auto found = environment.facts.find("layout");
  return found == environment.facts.end() ? "" : found->second;
}

CollectResult set_up_and_measure(const World& world, const CollectOptions& options,
                                 std::ostream& out) {
  const SetUp set_up(world, options);
  Plan plan;
  std::unique_ptr<TimingBackend> backend;
  set_up.step("planning the sweep", [&] { plan = plan_of(options); });
  const bool manager_on_host = has_manager(world, options);
  std::vector<std::string> warnings;
  set_up.step("opening devices", [&] {
    if (options.dedicated_manager && world.size() == 1) {
      throw UsageError(
          "--dedicated-manager needs a second rank to measure: mpirun -n 2 forecost ...");
    }
    if (options.dedicated_manager && world.rank() == 0) return;
    backend = open_backend(options.backend, request_of(world, options, plan.seed, manager_on_host),
                           &warnings);
  });
  warn_together(world, warnings);
  // Sharing is found before the seconds of a probe are spent; the second gathering brings what the
  // probe found.
  DeviceGroup group = gather_devices(world, backend.get());
  // One rank without a device hands out the work. That --replay has none for a rank was asked for.
  if (const int idle = world.size() - group.devices() - 1;
      world.rank() == 0 && idle > 0 && options.replay.empty()) {
    spdlog::warn(
        "{} without a device and without work: start one rank for each device, and one more "
        "if it is to manage",
        idle == 1 ? "1 rank is" : fmt::format("{} ranks are", idle));
  }
  std::optional<OpenedRun> opened;  // on rank 0
  set_up.step("gathering devices and opening the run directory", [&] {
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
  probe_devices(world, set_up, backend.get(), group.devices());
  group = gather_devices(world, backend.get());

  std::vector<std::string> classes;
  for (const auto& member : group.members) classes.push_back(member.device.device_class);
  const int manager = manager_of(classes);
  const bool manages = world.rank() == manager;

  std::string layout;
  for (const auto& own : world.all_gather(layout_of(backend.get()))) {
    if (!own.empty()) layout = own;
  }
  std::optional<Measurer> measurer;
  Remaining before;
  set_up.step("reading what earlier launches have measured", [&] {
    // A run directory may hold what other shards and classes did; none of it counts but by task
    // key.
    if (manages)
      before =
          remaining_tasks(plan, group, finished_tasks(options.run_directory, options.retry, layout),
                          deaths(options.run_directory));
    if (options.retry.contains(Status::crashed)) before.given_up.clear();
  });
  const std::string collectives = world.broadcast(text_of(before.collectives), manager);
  Launch launch{.run = run_record(world, options, plan, group, run_id),
                .neighbours = group.neighbours(world.rank()),
                .given_up = lines_of(world.broadcast(joined(before.given_up), manager)),
                .next_reference_replicate = std::stoll(
                    world.broadcast(std::to_string(before.next_reference_replicate), manager))};
  agree(world, [&] {
    if (backend) {
      measurer.emplace(plan, *backend, *in_flight, folder / fmt::format("journal-{}", world.rank()),
                       std::move(launch));
    }
  });

  Schedule schedule{.queues = before.queues,
                    .time_limit_s = set_up.left_s(),
                    .budget_device_s = options.budget_device_s};
  ScheduleHooks hooks;
  hooks.execute = [&](std::int64_t index) { return measurer->execute(index); };
  hooks.stop_requested = [&] { return stop_signal() != 0 || (measurer && measurer->poisoned()); };
  const auto total =
      static_cast<std::int64_t>(plan.tasks.size() * group.classes().size()) * plan.rules.replicates;
  std::optional<Watch> watch;
  if (manages) {
    watch.emplace(options, before, total);
    hooks.watch = [&](const ScheduleState& state) { (*watch)(state); };
  }
  const Clock::time_point begin = Clock::now();
  const ScheduleState state = run_schedule(world, backend ? backend->device().device_class : "",
                                           std::move(schedule), hooks);
  Outcomes own = manages ? before.outcomes : Outcomes{};
  if (manages) add(state.outcomes, own);
  bool finished = state.end == ScheduleEnd::finished;
  const auto in_time = [&](double expected_s) {
    return stop_signal() == 0 && expected_s < set_up.left_s();
  };
  if (finished) {
    finished = measure_collectives(
        world, plan, group, std::istringstream(collectives), backend.get(),
        measurer ? &*measurer : nullptr, in_time,
        [&](std::int64_t done) {
          if (watch) watch->collectives(state, done);
        },
        own);
  }
  if (watch) watch->finish();
  // Rank 0 speaks, whoever has managed. What was shared is measured again now; what was throttled
  // stays so.
  if (world.rank() == 0) {
    Told told = watch ? watch->told() : Told{};
    if (!watch) warn_of(state, Status::shared, few_disturbed, told.others);
    warn_of(state, Status::throttled, 0, told.heat);
  }
  if (measurer && finished) {
    add(measurer->measure_shared_again(in_time), own);
  }
  if (measurer) measurer->sync();
  world.barrier();

  const double wall_s = seconds_since(begin);
  const bool poisoned = world.all_max(measurer && measurer->poisoned() ? 1 : 0) != 0 && !finished;
  const Outcomes outcomes = sum_outcomes(world, own);
  const std::int64_t done = count_of(outcomes);
  const std::int64_t measured_now =
      done - std::stoll(world.broadcast(std::to_string(before.done), manager));
  SoFar so_far = options.so_far;
  so_far.fruitless = measured_now < few_tasks ? so_far.fruitless + 1 : 0;
  so_far.measured += measured_now;
  so_far.wall_s += wall_s;
  so_far.duty += sum_duty(world, measurer ? measurer->duty() : Duty{});
  const bool worn_out = poisoned && so_far.fruitless >= most_fruitless;
  CollectResult result{
      .code = finished   ? ExitCode::done
              : worn_out ? ExitCode::environment
                         : ExitCode::stopped,
      // A retry would measure what poisoned the device again, for ever.
      .restart = poisoned && !worn_out && world.size() == 1 && options.retry.empty(),
      .so_far = so_far,
      .device_s = state.device_s};
  if (result.restart) {
    spdlog::warn("the device answers nothing any more: the process starts anew and goes on");
    return result;
  }
  const bool repeats = world.all_max(measurer && measurer->measured_references() ? 1 : 0) != 0 ||
                       plan.rules.replicates > 1;
  const bool virtual_time =
      world.all_max(backend && backend->protocol() == Protocol::virtual_clock ? 1 : 0) != 0;
  agree(world, [&] {
    if (world.rank() != 0) return;
    merge_at_end(options.run_directory);
    const std::int64_t measured = so_far.measured;
    const std::string unit = plan.rules.replicates > 1 ? "measurement" : "task";
    out << fmt::format("{}: {} of {}{}{}{}\n", (options.run_directory / "corpus.h5").string(),
                       format_count(static_cast<double>(done)), format_counted(total, unit),
                       outcomes.empty() ? "" : ": ", outcomes_text(outcomes),
                       finished && measured == 0 ? "; nothing was left to measure" : "");
    if (measured > 0) {
      out << pace_text(measured, unit, so_far.wall_s, group.devices(), so_far.duty, virtual_time);
    }
    if (repeats) out << repeats_text(options.run_directory / "corpus.h5", run_id);
    if (worn_out) {
      const Device device = group.classes().front();
      spdlog::error(
          "{} ({}) answered nothing any more {} times in a row, each time after fewer than {} "
          "tasks: "
          "have it looked after; {} left, go on with: {}",
          device.uuid, device.device_class, so_far.fruitless, few_tasks,
          format_counted(total - done, unit), options.resume_command);
    } else if (!finished) {
      const bool too_short = measured == 0 && (state.end == ScheduleEnd::time_limit ||
                                               state.end == ScheduleEnd::budget);
      spdlog::warn(
          "stopped early ({}) with {} left; go on{} with: {}",
          poisoned ? "a device answers nothing any more" : why_stopped(state.end, stop_signal()),
          format_counted(total - done, unit), too_short ? ", with a larger limit," : "",
          options.resume_command);
    }
  });
  const std::int64_t failures = failures_of(outcomes);
  if (!finished ||
      static_cast<double>(failures) <= tolerated_failures * static_cast<double>(total)) {
    return result;
  }
  if (world.rank() == 0) {
    spdlog::error(
        "{} of {} crashed, failed or timed out ('forecost corpus info {}' tells why); to measure "
        "them "
        "again: --resume --retry failed timeout crashed",
        format_count(static_cast<double>(failures)), format_counted(total, "task"),
        options.run_directory.string());
  }
  result.code = ExitCode::failures;
  return result;
}

}  // namespace

std::string SoFar::text() const {
  return fmt::format("{} {} {:.17g} {}", fruitless, measured, wall_s, text_of(duty));
}

SoFar SoFar::of(const std::string& text) {
  std::istringstream line(text);
  SoFar so_far;
  line >> so_far.fruitless >> so_far.measured >> so_far.wall_s >> so_far.duty;
  return line ? so_far : SoFar{};
}

CollectResult collect(const World& world, const CollectOptions& options, std::ostream& out) {
  try {
    return set_up_and_measure(world, options, out);
  } catch (const AgreedError& error) {
    if (error.code() != ExitCode::stopped) throw;
    if (world.rank() == 0) {
      spdlog::warn("stopped early ({}): nothing was measured; go on{} with: {}", error.what(),
                   stop_signal() == 0 ? ", with a larger limit," : "", options.resume_command);
    }
    return {.code = ExitCode::stopped};
  }
}

void show_plan(const World& world, const CollectOptions& options, std::ostream& out) {
  Plan plan;
  std::vector<Device> devices;
  std::vector<std::string> warnings;
  agree(world, [&] {
    plan = plan_of(options);
    DeviceRequest request = request_of(world, options, plan.seed, false);
    // A plan for many ranks is looked at from one: every source that --replay lists is opened.
    const auto sources =
        1 + (world.size() == 1 ? std::count(options.replay.begin(), options.replay.end(), ',') : 0);
    for (std::ptrdiff_t i = 0; i < sources; ++i) {
      if (sources > 1) request.rank = static_cast<int>(i);
      try {
        const auto backend = open_backend(options.backend, request, &warnings);
        if (backend) devices.push_back(backend->device());
      } catch (const EnvironmentError& error) {
        if (options.backend != "cuda") throw;
        throw EnvironmentError(fmt::format(
            "{}; to plan for a device that is not here: --replay NAME --plan-only", error.what()));
      }
    }
  });
  warn_together(world, warnings);
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
  const auto replicates = static_cast<double>(plan.rules.replicates);
  out << fmt::format("Sweep {} ({}), shard {}, seed {}{}\n\n", plan.name, plan.sweep_id,
                     options.shard.text(), plan.seed,
                     replicates > 1 ? fmt::format(", each task {} times", replicates) : "")
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
        seconds += replicates * expected_measuring_s(task, device, plan.rules);
      }
    }
    hours.add({device.device_class, format_count(static_cast<double>(plan.tasks.size())),
               format_seconds(seconds), fmt::format("{:.2f}", seconds / 3600),
               format_count(static_cast<double>(too_large))});
  }
  out << hours.str();
}

}  // namespace forecost
