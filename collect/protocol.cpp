#include "collect/protocol.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <vector>

#include <fmt/format.h>

#include "collect/stop_criteria.hpp"
#include "core/statistics.hpp"
#include "core/stop.hpp"
#include "core/units.hpp"

namespace forecost {
namespace {

constexpr int warmup_min_runs = 3;
constexpr double warmup_agreement = 0.05;
/// Throttled samples of one row that are taken again before the row is written as throttled, after
/// a rest that is twice as long each time, but never so long that clocks sink.
constexpr int max_retakes = 5;
constexpr double first_rest_s = 0.05;
/// A probe is a measurement too: what may exceed it, and by how much (rule 14). The launch latency
/// is that of the cheapest call there is, and of a batch some calls overlap.
constexpr double peak_tolerance = 1.05, bandwidth_tolerance = 1.1, latency_share = 0.5;
/// Clocks sink after this long without work, and need this long to rise again.
constexpr double idle_s = 1, ramp_s = 0.5;

/// One case on its way from the first run to the last sample.
class Session {
 public:
  Session(TimingBackend& backend, PreparedCase& prepared, CacheState cache,
          const MeasureRules& rules, double deadline_s, CaseTimes& times)
      : backend_(backend),
        case_(prepared),
        cold_(cache == CacheState::cold),
        rules_(rules),
        deadline_s_(deadline_s),
        times_(times) {}

  void run() {
    const double first_begin = backend_.now_s();
    const Sample first = take(1);
    times_.first_run_s = backend_.now_s() - first_begin;
    const double checksum = case_.checksum();

    warm_up(first);
    sample();

    times_.checksum = case_.checksum();
    if (!std::isfinite(checksum) || !std::isfinite(times_.checksum)) {
      throw CaseRefused(Status::failed, "the result is not finite");
    }
    if (std::fabs(checksum - times_.checksum) > case_.checksum_tolerance()) {
      throw CaseRefused(Status::failed,
                        fmt::format("the result changed between the first and the last run: its "
                                    "checksum went from {:.17g} to {:.17g}",
                                    checksum, times_.checksum));
    }
  }

 private:
  /// The measured path, the same for warm-up and samples.
  Sample take(std::int64_t runs) {
    if (stop_signal() != 0) throw StopAsked{};
    if (backend_.now_s() > deadline_s_) {
      throw CaseRefused(Status::timeout,
                        fmt::format("not done after {}", format_seconds(rules_.timeout_s)));
    }
    if (cold_) case_.make_cold();
    return case_.run(runs);
  }

  void warm_up(const Sample& first) {
    const double begin = backend_.now_s();
    std::vector<double> times{first.device_s};
    const auto agree = [&] {
      if (times.size() < warmup_min_runs) return false;
      const auto [low, high] = std::minmax_element(times.end() - warmup_min_runs, times.end());
      return *high - *low <= warmup_agreement * *low;
    };
    while (!agree() && backend_.now_s() - begin < rules_.warmup_budget_s) {
      times.push_back(take(1).device_s);
    }
    // A batch keeps the clock's own cost and resolution out of short kernels; cold runs cannot be
    // batched, since the second one would find its operands in the cache.
    const double estimate = *std::min_element(times.begin(), times.end());
    if (!cold_ && estimate < rules_.short_kernel_s) {
      // The run it is estimated from may have been a slow one, hence the margin and the check.
      constexpr double margin = 1.05;
      for (double run_s = estimate, batch_s = 0; batch_s < rules_.hot_batch_s;) {
        const double runs = std::ceil(margin * rules_.hot_batch_s / std::max(run_s, 1e-9));
        if (runs <= static_cast<double>(times_.runs_per_sample)) break;
        times_.runs_per_sample = static_cast<std::int64_t>(runs);
        batch_s = take(times_.runs_per_sample).device_s;
        run_s = batch_s / runs;
      }
    }
    times_.warmup_s = backend_.now_s() - begin;
  }

  void sample() {
    const auto runs = static_cast<double>(times_.runs_per_sample);
    const std::vector<StopCriterion> criteria = stop_criteria(rules_);
    std::vector<double> device, host;
    double begin = backend_.now_s();
    backend_.watch();
    while (times_.stop_reason == StopReason::none) {
      const Sample taken = take(times_.runs_per_sample);
      if (taken.throttled && times_.retakes < max_retakes) {
        const double rest_begin = backend_.now_s();
        backend_.rest(std::ldexp(first_rest_s, static_cast<int>(times_.retakes++)));
        take(times_.runs_per_sample);            // the first run after a rest is no sample
        begin += backend_.now_s() - rest_begin;  // nor is the rest sampling
        continue;
      }
      times_.throttled = times_.throttled || taken.throttled;
      device.push_back(taken.device_s / runs);
      host.push_back(taken.host_s / runs);
      const double elapsed_s = backend_.now_s() - begin;
      for (const StopCriterion& criterion : criteria) {
        if (times_.stop_reason == StopReason::none && criterion.met(device, elapsed_s)) {
          times_.stop_reason = criterion.reason;
        }
      }
    }
    times_.sampling_s = backend_.now_s() - begin;
    times_.conditions = backend_.conditions();
    times_.samples_s.assign(device.begin(), device.end());
    times_.time = summarize(device);
    times_.host_s = median(std::move(host));
  }

  TimingBackend& backend_;
  PreparedCase& case_;
  const bool cold_;
  const MeasureRules& rules_;
  const double deadline_s_;
  CaseTimes& times_;
};

void refuse(Measurement& row, Status status, std::string reason) {
  row.status = status;
  // One line: some libraries' messages have more.
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  row.reason = std::move(reason);
}

/// By nested loops: of a task that is not too large for them, where the backend shows its operands.
void check_result(const Task& task, PreparedCase& prepared) {
  constexpr double most_flops = 1e8, most_bytes = 1e8;
  const Work work = task.work();
  if (!has_reference(task) || work.flops > most_flops || work.bytes() > most_bytes) return;
  const Operands operands = prepared.operands();
  if (operands.empty()) return;
  const Deviation deviation = deviation_from_reference(task, operands);
  if (deviation.relative <= reference_tolerance(task.dtype)) return;
  throw CaseRefused(
      Status::failed,
      fmt::format("{} differs from the reference by {:.2g} of its largest value; {:.2g} is allowed",
                  deviation.result, deviation.relative, reference_tolerance(task.dtype)));
}

void measure_into(Measurement& row, TimingBackend& backend, const MeasureRules& rules,
                  std::uint64_t seed, const Prepare& prepare) {
  const double started_s = backend.now_s();
  if (!prepare) {
    if (const auto why = backend.unsupported(row.task)) {
      throw CaseRefused(Status::unsupported, *why);
    }
  }
  // Operands alone; prepare() refuses once it also knows the workspace.
  const double needed = row.task.work().bytes(), available = backend.free_memory_bytes();
  if (needed > available) {
    throw CaseRefused(Status::skipped_memory,
                      fmt::format("operands of {} do not fit into {}", format_bytes(needed),
                                  format_bytes(available)));
  }
  if (stop_signal() != 0) throw StopAsked{};
  std::unique_ptr<PreparedCase> prepared =
      prepare ? prepare(row.task, seed) : backend.prepare(row.task, seed);
  const CaseInfo& info = prepared->info();
  row.implementation = info.implementation;
  row.memory_bytes = info.memory_bytes;
  row.workspace_bytes = info.workspace_bytes;
  row.flush_bytes = row.task.cache == CacheState::cold ? info.flush_bytes : 0;
  row.allocate_s = info.allocate_s;
  row.plan_s = info.plan_s;
  row.reorder_s = info.reorder_s;
  row.seed = info.seed;

  CaseTimes times;
  const auto keep = [&] {
    row.time = times.time;
    row.host_s = times.host_s;
    row.first_run_s = times.first_run_s;
    row.warmup_s = times.warmup_s;
    row.sampling_s = times.sampling_s;
    row.checksum = times.checksum;
    row.stop_reason = times.stop_reason;
    row.runs_per_sample = times.runs_per_sample;
    row.foreign_share = times.conditions.foreign_share;
    row.clock_hz = times.conditions.clock_hz;
    row.temperature_k = times.conditions.temperature_k;
    row.power_w = times.conditions.power_w;
    row.samples_s = std::move(times.samples_s);
  };
  try {
    time_case(backend, *prepared, row.task.cache, rules, started_s + rules.timeout_s, times);
  } catch (const CaseRefused&) {
    keep();
    throw;
  }
  keep();
  if (rules.check) check_result(row.task, *prepared);
  if (times.throttled) {
    const std::string& by = times.conditions.throttled_by;
    refuse(row, Status::throttled,
           fmt::format("samples were throttled{}, also after {} retakes",
                       by.empty() ? "" : " (" + by + ")", max_retakes));
    return;
  }
  if (!times.conditions.shared.empty()) {
    refuse(row, Status::shared, times.conditions.shared);
    return;
  }
  Verdict verdict = plausibility(row, backend.device());
  if (verdict.status == Status::implausible) {
    prepared.reset();
    if (backend.confirm_limits()) verdict = plausibility(row, backend.device());
  }
  if (times.retakes > 0) {
    verdict.reason +=
        fmt::format("{}{} throttled and taken again", verdict.reason.empty() ? "" : "; ",
                    format_counted(times.retakes, "sample"));
  }
  refuse(row, verdict.status, verdict.reason);
}

}  // namespace

void time_case(TimingBackend& backend, PreparedCase& prepared, CacheState cache,
               const MeasureRules& rules, double deadline_s, CaseTimes& times) {
  Session(backend, prepared, cache, rules, deadline_s, times).run();
}

Measurement begin_row(const TimingBackend& backend, const Task& task) {
  Measurement row{.task = task};
  row.device_class = backend.device().device_class;
  row.device_id = backend.device().id();
  row.protocol = backend.protocol();
  row.started_unix_s =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return row;
}

std::optional<Measurement> measure(TimingBackend& backend, const Task& task,
                                   const MeasureRules& rules, std::uint64_t seed,
                                   const Prepare& prepare) {
  Measurement row = begin_row(backend, task);
  row.seed = seed;
  try {
    measure_into(row, backend, rules, seed, prepare);
  } catch (const StopAsked&) {
    return std::nullopt;
  } catch (const CaseRefused& refused) {
    refuse(row, refused.status(), refused.what());
  } catch (const std::bad_alloc&) {
    refuse(row, Status::out_of_memory, "the system gave no memory");
  } catch (const std::exception& error) {
    refuse(row, Status::failed, error.what());
  }
  return row;
}

Verdict plausibility(const Measurement& row, const Device& device) {
  const Task& task = row.task;
  const double seconds = row.time.median_s;
  const auto no = [](std::string why) { return Verdict{Status::implausible, std::move(why)}; };
  if (!(seconds > 0)) return no("a run took no time");
  // Comparisons with an unknown (NaN) limit are false.
  const double launch_s = device[Attribute::probed_launch_latency_s];
  // Loops of our own are called directly, which is cheaper than any call of a library.
  const bool own_loop = row.implementation.starts_with("forecost:");
  if (!own_loop && row.host_s < latency_share * launch_s) {
    return no(fmt::format("{} a run on the host's clock, but the cheapest call takes {}",
                          format_seconds(row.host_s), format_seconds(launch_s)));
  }
  const Work work = task.work();
  const double peak = device.peak_flops(task.dtype);
  const double flops = (work.flops - work.padding_flops) / seconds;
  std::string remark;
  if (flops > peak_tolerance * peak) {
    std::string what = fmt::format("{} is more than the device's peak of {}",
                                   format_si(flops, "FLOP/s"), format_si(peak, "FLOP/s"));
    const auto& name = row.implementation;
    const bool fast =
        name.find("wino") != std::string::npos || name.find("fft") != std::string::npos;
    if (!fast && !name.empty()) return no(std::move(what));
    remark = what + (fast ? ": a fast algorithm" : ": an unknown algorithm");
  }
  // What is read: cold operands come from memory at least once, while results may stay in the
  // cache. A cache gives hot ones, or memory where they do not fit.
  const double memory = device.bandwidth_bytes_per_s();
  const double cache = device[Attribute::probed_cache_bandwidth_bytes_per_s];
  const bool cold = task.cache == CacheState::cold;
  // What a gang reads is other members' memory.
  if (work.traffic == Traffic::interconnect) return {Status::ok, std::move(remark)};
  const double limit = cold ? memory : cache > memory ? cache : memory;
  const double bytes = work.bytes_read - work.avoidable_bytes;
  if ((cold || !std::isnan(cache)) && bytes / seconds > bandwidth_tolerance * limit) {
    return no(fmt::format("{} is more than {} gives: {}", format_si(bytes / seconds, "B/s"),
                          cold ? "memory" : "the cache", format_si(limit, "B/s")));
  }
  return {Status::ok, std::move(remark)};
}

void KeepAwake::before_task() {
  if (backend_.now_s() - idle_since_s_ > idle_s) backend_.spin(ramp_s);
}

}  // namespace forecost
