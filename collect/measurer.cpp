#include "collect/measurer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "core/hash.hpp"
#include "core/random.hpp"

namespace forecost {

namespace {

using Clock = std::chrono::steady_clock;

/// A drift reference takes longer than a clock's tick and a launch, and not much of the run.
constexpr double reference_median_min_s = 100e-6, reference_sampling_max_s = 2;
/// Up to this share of shared rows, or this number of them, is measured again.
constexpr double shared_share_max = 0.2;
constexpr std::int64_t shared_always = 10;

double or_zero(double value) { return std::isnan(value) ? 0 : value; }

}  // namespace

Planned planned(const Plan& plan, std::int64_t index) {
  const auto count = static_cast<std::int64_t>(plan.tasks.size());
  return {static_cast<std::size_t>(index % count), index / count};
}

std::int64_t index_of(const Plan& plan, const Planned& what) {
  return what.replicate * static_cast<std::int64_t>(plan.tasks.size()) +
         static_cast<std::int64_t>(what.task);
}

Duty& Duty::operator+=(const Duty& other) {
  sampling_s += other.sampling_s;
  warm_up_s += other.warm_up_s;
  planning_s += other.planning_s;
  busy_s += other.busy_s;
  return *this;
}

Measurer::Measurer(const Plan& plan, TimingBackend& backend, InFlight& in_flight,
                   const std::filesystem::path& journal, Launch launch)
    : plan_(plan),
      backend_(backend),
      in_flight_(in_flight),
      journal_(journal),
      environment_(backend.environment()),
      launch_(std::move(launch)),
      awake_(backend) {
  journal_.append(launch_.run);
  journal_.append(SweepRecord{plan.sweep_id, plan.name, plan.sweep_text});
  journal_.append(environment_);
  record_device();
}

std::optional<TaskReport> Measurer::execute(std::int64_t index) {
  const double busy_before_s = duty_.busy_s;
  awake_.before_task();
  if (poisoned()) return std::nullopt;
  if (reference_ && backend_.now_s() - last_reference_s_ >= plan_.rules.reference_interval_s) {
    measure_reference();
    if (poisoned()) return std::nullopt;
  }
  const auto [task, replicate] = planned(plan_, index);
  const Clock::time_point begin = Clock::now();
  const auto row = measure_planned(task, replicate);
  if (!row) return std::nullopt;
  ++measured_;
  if (row->status == Status::shared) shared_.push_back(index);
  // The first good one: its planned row begins the drift curve.
  if (!reference_ && row->status == Status::ok && row->time.median_s >= reference_median_min_s &&
      row->sampling_s <= reference_sampling_max_s) {
    reference_ = task;
    last_reference_s_ = backend_.now_s();
  }
  return TaskReport{std::chrono::duration<double>(Clock::now() - begin).count(),
                    duty_.busy_s - busy_before_s, static_cast<int>(row->status)};
}

Outcomes Measurer::measure_shared_again(const std::function<bool(double expected_s)>& may_begin) {
  Outcomes changes;
  const auto count = static_cast<std::int64_t>(shared_.size());
  if (static_cast<double>(count) > shared_share_max * static_cast<double>(measured_) &&
      count > shared_always) {
    return changes;
  }
  for (const std::int64_t index : shared_) {
    const auto [task, replicate] = planned(plan_, index);
    if (poisoned() ||
        !may_begin(expected_measuring_s(plan_.tasks[task], backend_.device(), plan_.rules))) {
      break;
    }
    awake_.before_task();
    const auto row = measure_planned(task, replicate);
    if (!row) break;
    --changes[static_cast<int>(Status::shared)];
    ++changes[static_cast<int>(row->status)];
  }
  return changes;
}

std::optional<Status> Measurer::execute_collective(std::int64_t index, Gang& gang,
                                                   const GangRecord& members) {
  awake_.before_task();
  const auto [task, replicate] = planned(plan_, index);
  const Take take = [&](const Task& what, std::uint64_t seed) {
    return measure_in_gang(backend_, gang, what, plan_.rules, seed);
  };
  if (gang.rank() != 0) {
    // The first member does not ask for what all of them have given up.
    if (given_up(plan_.tasks[task])) return std::nullopt;
    const double begin_s = backend_.now_s();
    take(plan_.tasks[task], seed_of(plan_.tasks[task], replicate));
    duty_.busy_s += backend_.now_s() - begin_s;
    awake_.after_task();
    return std::nullopt;
  }
  if (recorded_groups_.insert(members.id()).second) journal_.append(members);
  const auto row = measure_planned(task, replicate, take, members.id());
  if (!row) return std::nullopt;
  return row->status;
}

Status Measurer::refuse_collective(std::int64_t index, const std::string& why_not) {
  const auto [task, replicate] = planned(plan_, index);
  measure_planned(task, replicate, [&](const Task& what, std::uint64_t) {
    Measurement row = begin_row(backend_, what);
    row.status = Status::unsupported;
    row.reason = why_not;
    return std::optional(row);
  });
  return Status::unsupported;
}

std::optional<Measurement> Measurer::measure_planned(std::size_t index, std::int64_t replicate) {
  return measure_planned(index, replicate, [&](const Task& task, std::uint64_t seed) {
    return measure(backend_, task, plan_.rules, seed);
  });
}

bool Measurer::given_up(const Task& task) const {
  return launch_.given_up.contains(task_key(task, backend_.device().device_class));
}

/// Other values for another replicate: what depends on them is part of how well a time repeats.
std::uint64_t Measurer::seed_of(const Task& task, std::int64_t replicate) const {
  const auto stream = static_cast<std::uint64_t>(replicate);
  return hash64(task_text(task)) ^ plan_.seed ^ (stream == 0 ? 0 : mix64(stream));
}

std::optional<Measurement> Measurer::measure_planned(std::size_t index, std::int64_t replicate,
                                                     const Take& take,
                                                     const std::string& group_id) {
  const Task& task = plan_.tasks[index];
  spdlog::debug("task {} #{}: {}", index, replicate, task_text(task));
  const double begin_s = backend_.now_s();
  std::optional<Measurement> row;
  if (given_up(task)) {
    row = begin_row(backend_, task);
    row->status = Status::crashed;
    row->reason = fmt::format("its process died {} times while measuring it", deadly);
  } else {
    in_flight_.begin(task_key(task, backend_.device().device_class));
    row = take(task, seed_of(task, replicate));
    in_flight_.end();
  }
  awake_.after_task();
  if (!row) return std::nullopt;
  record_device();
  row->environment_id = environment_.id();
  row->run_id = launch_.run.id;
  row->replicate = replicate;
  row->group_id = group_id;
  row->concurrent_ranks = launch_.neighbours;
  journal_.append(*row);
  if (row->status != Status::ok) {
    spdlog::debug("task {}: {}: {}", index, name_of(row->status), row->reason);
  }
  duty_.busy_s += backend_.now_s() - begin_s;
  duty_.sampling_s += or_zero(row->sampling_s);
  duty_.warm_up_s += or_zero(row->first_run_s) + or_zero(row->warmup_s);
  duty_.planning_s += or_zero(row->allocate_s) + or_zero(row->plan_s) + or_zero(row->reorder_s);
  return row;
}

void Measurer::measure_reference() {
  if (measure_planned(*reference_, launch_.next_reference_replicate + references_)) ++references_;
  last_reference_s_ = backend_.now_s();
}

/// Its limits change where a second probe found larger ones.
void Measurer::record_device() {
  if (backend_.device() == recorded_device_) return;
  journal_.append(backend_.device());
  recorded_device_ = backend_.device();
}

}  // namespace forecost
