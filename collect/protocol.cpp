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
/// Throttled samples of one row that are taken again before the row is written as throttled.
constexpr int max_retakes = 5;
/// A probe is a measurement too: what may exceed it, and by how much (rule 14).
constexpr double peak_tolerance = 1.05, bandwidth_tolerance = 1.1;

/// One case on its way from the first run to the last sample.
class Session {
 public:
  Session(const TimingBackend& backend, PreparedCase& prepared, CacheState cache,
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
    // Bit for bit: the same operands in the same order on the same threads.
    if (checksum != times_.checksum) {
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
      const double runs = std::ceil(rules_.hot_batch_s / std::max(estimate, 1e-9));
      times_.runs_per_sample = static_cast<std::int64_t>(std::max(1.0, runs));
      take(times_.runs_per_sample);
    }
    times_.warmup_s = backend_.now_s() - begin;
  }

  void sample() {
    const auto runs = static_cast<double>(times_.runs_per_sample);
    const std::vector<StopCriterion> criteria = stop_criteria(rules_);
    std::vector<double> device, host;
    int retakes = 0;
    const double begin = backend_.now_s();
    while (times_.stop_reason == StopReason::none) {
      const Sample taken = take(times_.runs_per_sample);
      if (taken.throttled && retakes < max_retakes) {
        ++retakes;
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
    times_.samples_s.assign(device.begin(), device.end());
    times_.time = summarize(device);
    times_.host_s = median(std::move(host));
  }

  const TimingBackend& backend_;
  PreparedCase& case_;
  const bool cold_;
  const MeasureRules& rules_;
  const double deadline_s_;
  CaseTimes& times_;
};

bool steps_over_input(const Layer& layer) {
  return layer.has("stride_h") && (layer["stride_h"] > layer["kernel_h"] * layer["dilation_h"] ||
                                   layer["stride_w"] > layer["kernel_w"] * layer["dilation_w"]);
}

void refuse(Measurement& row, Status status, std::string reason) {
  row.status = status;
  // One line: some libraries' messages have more.
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  row.reason = std::move(reason);
}

void measure_into(Measurement& row, TimingBackend& backend, const MeasureRules& rules,
                  std::uint64_t seed) {
  const double started_s = backend.now_s();
  if (const auto why = backend.unsupported(row.task)) {
    throw CaseRefused(Status::unsupported, *why);
  }
  // Operands alone; prepare() refuses once it also knows the workspace.
  const double needed = row.task.work().bytes(), available = backend.free_memory_bytes();
  if (needed > available) {
    throw CaseRefused(Status::skipped_memory,
                      fmt::format("operands of {} do not fit into {}", format_bytes(needed),
                                  format_bytes(available)));
  }
  if (stop_signal() != 0) throw StopAsked{};
  std::unique_ptr<PreparedCase> prepared = backend.prepare(row.task, seed);
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
    row.samples_s = std::move(times.samples_s);
  };
  try {
    time_case(backend, *prepared, row.task.cache, rules, started_s + rules.timeout_s, times);
  } catch (const CaseRefused&) {
    keep();
    throw;
  }
  keep();
  if (times.throttled) {
    refuse(row, Status::throttled,
           fmt::format("samples were throttled, also after {} retakes", max_retakes));
    return;
  }
  const auto judge = [&] {
    return implausible(row.task, row.time.median_s, backend.device(), row.implementation);
  };
  auto why = judge();
  if (!why) return;
  prepared.reset();
  if (backend.confirm_limits()) why = judge();
  if (why) refuse(row, Status::implausible, *why);
}

}  // namespace

void time_case(const TimingBackend& backend, PreparedCase& prepared, CacheState cache,
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
                                   const MeasureRules& rules, std::uint64_t seed) {
  Measurement row = begin_row(backend, task);
  row.seed = seed;
  try {
    measure_into(row, backend, rules, seed);
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

std::optional<std::string> implausible(const Task& task, double seconds, const Device& device,
                                       const std::string& implementation) {
  if (!(seconds > 0)) return "a run took no time";
  const Work work = task.work();
  const bool fast_algorithm = implementation.find("wino") != std::string::npos ||
                              implementation.find("fft") != std::string::npos;
  const double peak = device.peak_flops(task.dtype);
  const double flops = (work.flops - work.padding_flops) / seconds;
  if (!fast_algorithm && flops > peak_tolerance * peak) {
    return fmt::format("{} is more than the device's peak of {}", format_si(flops, "FLOP/s"),
                       format_si(peak, "FLOP/s"));
  }
  // What is read: cold operands come from memory at least once, while results may stay in the
  // cache. A cache gives hot ones, or memory where they do not fit. Comparisons with an unknown
  // (NaN) limit are false.
  const double memory = device.bandwidth_bytes_per_s();
  const double cache = device[Attribute::probed_cache_bandwidth_bytes_per_s];
  const bool cold = task.cache == CacheState::cold;
  // A kernel that steps over part of its input does not read what Work counts.
  if (steps_over_input(task.layer)) return std::nullopt;
  const double limit = cold ? memory : cache > memory ? cache : memory;
  const double bytes = work.bytes_read;
  if ((cold || !std::isnan(cache)) && bytes / seconds > bandwidth_tolerance * limit) {
    return fmt::format("{} is more than {} gives: {}", format_si(bytes / seconds, "B/s"),
                       cold ? "memory" : "the cache", format_si(limit, "B/s"));
  }
  return std::nullopt;
}

}  // namespace forecost
