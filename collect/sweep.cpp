#include "collect/sweep.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "collect/plan.hpp"
#include "core/file.hpp"
#include "core/hash.hpp"

namespace forecost {

Plan load_plan(const std::string& name_or_file) {
  const std::filesystem::path sweep_file = shipped_or_file("sweeps", "sweep", name_or_file);
  Plan plan;
  plan.sweep_text = read_text(sweep_file);
  plan.sweep_id = short_id(plan.sweep_text);
  const Sweep sweep = parse_sweep(parse_toml(plan.sweep_text, sweep_file.string()));
  plan.name = sweep.name;
  plan.seed = sweep.seed;
  plan.rules = sweep.rules;
  expand(sweep, plan);
  if (plan.tasks.empty()) {
    const PlanSkip* skip = plan.skipped.empty() ? nullptr : &plan.skipped.front();
    throw UsageError(fmt::format("{}: the sweep's caps and ranges leave no task{}",
                                 sweep_file.string(),
                                 skip ? fmt::format("; {}: {}", skip->op, skip->reason) : ""));
  }
  return plan;
}

double expected_measuring_s(const Task& task, const Device& device, const MeasureRules& rules) {
  // For a device of which neither a probe nor a file tells: a core of a current server (AVX-512, 2
  // FMA a clock at 3 GHz; a probed EPYC core: 2.2e11, 4e10), and memory that some ten of them
  // fill. --plan-only sees every CPU without a file so.
  constexpr double core_flops = 2e11, core_bytes_per_s = 3e10, socket_bytes_per_s = 4e11;
  // Layers reach a third to a half of their roofline; a call takes microseconds whatever it does.
  constexpr double reached = 0.4, call_s = 5e-6;
  // Most rows are precise or stable after 15 to 35 samples.
  constexpr double usual_samples = 25;
  // Planning, allocation and journal of a task.
  constexpr double fixed_s = 0.02;

  const double cores = device.has(Attribute::cores) ? device[Attribute::cores] : 1;
  const double fallback_flops = cores * core_flops;
  const double fallback_bytes_per_s = std::min(cores * core_bytes_per_s, socket_bytes_per_s);

  const Work work = task.work();
  const double peak = device.peak_flops(task.dtype),
               bandwidth = device.bandwidth_bytes_per_s(work.traffic);
  const double compute_s = work.flops / (std::isnan(peak) ? fallback_flops : peak);
  const double memory_s =
      work.moved_bytes() / (std::isnan(bandwidth) ? fallback_bytes_per_s : bandwidth);
  const double run_s = std::max(compute_s, memory_s) / reached + call_s;

  const bool batched = task.cache != CacheState::cold && run_s < rules.short_kernel_s;
  const double sample_s = batched ? rules.hot_batch_s : run_s;
  const double warmup_s = std::max(3 * run_s, std::min(rules.warmup_budget_s, 5 * run_s));
  const auto least = static_cast<double>(rules.min_samples),
             most = static_cast<double>(rules.max_samples);
  const double sampling_s =
      std::max(least * sample_s,
               std::min(rules.budget_s, std::clamp(usual_samples, least, most) * sample_s));
  const double fill_s = 2 * memory_s;
  return std::min(fixed_s + fill_s + warmup_s + sampling_s, rules.timeout_s);
}

}  // namespace forecost
