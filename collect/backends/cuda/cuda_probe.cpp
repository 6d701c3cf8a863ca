#include "collect/backends/cuda/cuda_probe.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "collect/backends/cuda/primitives.hpp"
#include "core/units.hpp"

namespace forecost::cuda {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;
constexpr double piece_s = 0.02;

class Probe {
 public:
  Probe(OpenDevice& device, ThrottleWatch& throttle) : device_(device), throttle_(throttle) {
    // Half of what is free serves the largest buffers; 8192 fills the largest device there is.
    std::int64_t free_bytes = 0;
    device_.ask(device_.table().free_memory(device_.context(), &free_bytes));
    while (side_ > 1024 && 3 * 4 * side_ * side_ > free_bytes / 2) side_ /= 2;
    largest_ = std::max<std::int64_t>(
        64 * mib, std::min<std::int64_t>(free_bytes / 4, 1024 * mib) / mib * mib);
  }

  void round(ProbeFigures& figures) {
    add_peak(figures, DType::f32, Attribute::probed_f32_flops);
    if (device_.capability() >= 80) {
      add_peak(figures, DType::tf32, Attribute::probed_tf32_flops);
      add_peak(figures, DType::bf16, Attribute::probed_bf16_flops);
    }
    add_peak(figures, DType::f16, Attribute::probed_f16_flops);

    for (std::int64_t bytes = device_.facts().l2_bytes / 16 / 65536 * 65536 + 65536;
         bytes <= largest_; bytes *= 2) {
      attempt([&] {
        const Rate rate = read_rate(bytes);
        add(rate, figures.curve[static_cast<double>(bytes)]);
        // The largest one is memory's.
        if (2 * bytes > largest_) add(rate, figures.rates[Attribute::probed_bandwidth_bytes_per_s]);
      });
    }
    attempt([&] {
      const Rate rate = copy_rate();
      add(rate, figures.rates[Attribute::probed_host_link_bytes_per_s]);
    });
    add(launch_rate(), figures.launches_per_s);
    ++rounds_;
    if (throttled_) ++throttled_rounds_;
    throttled_ = false;
  }

  /// Of `rounds`, if any was throttled.
  std::optional<std::string> throttling() const {
    if (throttled_rounds_ == 0) return std::nullopt;
    return fmt::format("the clock of {} was held back ({}) in {} of {}", device_.facts().uuid,
                       throttle_.reasons(), throttled_rounds_, format_counted(rounds_, "round"));
  }

 private:
  struct Rate {
    double per_s;
    bool throttled;
  };
  void add(const Rate& rate, Series& series) {
    series.add(rate.per_s, rate.throttled);
    throttled_ = throttled_ || rate.throttled;
  }

  /// What the device has no room or no kernel for stays unknown.
  static void attempt(const std::function<void()>& part) {
    try {
      part();
    } catch (const CaseRefused& refused) {
      if (refused.status() == Status::failed) throw;
      spdlog::debug("not probed: {}", refused.what());
    }
  }

  /// How much of `amount` a second of what `describe` writes: by the shortest run of a piece of
  /// time.
  Rate rate_of(double amount, const Task& task, const std::function<void(Recipe&)>& describe) {
    const auto prepared = prepare_recipe(device_, throttle_, task, Layout::nchw, 1, describe);
    prepared->run(1);
    double best = 1e30;
    bool throttled = false;
    const double begin = host_seconds();
    for (int i = 0; i < 3 || host_seconds() - begin < piece_s; ++i) {
      const Sample sample = prepared->run(1);
      best = std::min(best, sample.device_s);
      throttled = throttled || sample.throttled;
    }
    return {amount / best, throttled};
  }

  void add_peak(ProbeFigures& figures, DType dtype, Attribute peak) {
    attempt([&] {
      const auto n = static_cast<double>(side_);
      const Task task{any_layer_, Pass::forward, dtype};
      const Rate rate = rate_of(2 * n * n * n, task, [&](Recipe& recipe) {
        const auto square = recipe.plain(side_ * side_);
        recipe.run(primitive(gemm_of(recipe, 1, side_, side_, side_)),
                   {recipe.input("a", square), recipe.input("b", square),
                    recipe.result("c", square), Recipe::none});
      });
      add(rate, figures.rates[peak]);
    });
  }

  Rate read_rate(std::int64_t bytes) {
    const std::int64_t repeats = std::max<std::int64_t>(1, 256 * mib / bytes);
    const auto read_bytes = static_cast<double>(bytes * repeats);
    return rate_of(read_bytes, Task{any_layer_}, [&](Recipe& recipe) {
      recipe.run(primitive(Read{bytes, repeats}),
                 {recipe.input("", Recipe::f32(bytes / 4)), recipe.intermediate(Recipe::bytes(8))});
    });
  }

  Rate copy_rate() {
    constexpr std::int64_t bytes = 64 * mib;
    return rate_of(static_cast<double>(bytes), Task{any_layer_}, [&](Recipe& recipe) {
      const auto from = recipe.input("", Recipe::f32(bytes / 4));
      recipe.keep_on_host(from, true);
      recipe.run(primitive(Copy{bytes}), {from, recipe.result("", Recipe::f32(bytes / 4))});
    });
  }

  /// Not by a case, which would hold the stream: launches as a framework makes them.
  Rate launch_rate() {
    constexpr std::int64_t runs = 200;
    Plan* plan = nullptr;
    PlanInfo info{};
    const Primitive nothing = empty_primitive();
    const ModuleTable& table = device_.table();
    device_.ask(table.plan(device_.context(), &nothing, &plan, &info));
    const std::unique_ptr<Plan, void (*)(Plan*)> own_plan(plan, table.drop_plan);
    const Step step{plan, {}};
    Sequence* sequence = nullptr;
    device_.ask(table.prepare(device_.context(), &step, 1, nullptr, 0, &sequence));
    const std::unique_ptr<Sequence, void (*)(Sequence*)> own_sequence(sequence,
                                                                      table.drop_sequence);
    double best = 1e30;
    bool throttled = false;
    const double begin = host_seconds();
    for (int i = 0; i < 3 || host_seconds() - begin < piece_s; ++i) {
      Timing timing{};
      device_.ask(table.run(sequence, runs, Launch::direct, 0, &timing));
      best = std::min(best, timing.host_s / static_cast<double>(runs));
      throttled = throttle_.throttled() || throttled;
    }
    return {1 / best, throttled};
  }

  OpenDevice& device_;
  ThrottleWatch& throttle_;
  std::int64_t side_ = 8192, largest_ = 0;
  bool throttled_ = false;  ///< in the round so far
  int rounds_ = 0, throttled_rounds_ = 0;
  /// A case belongs to a task; these run no operator of it.
  Layer any_layer_{"dense", {{"batch", 1}, {"in_features", 1}, {"out_features", 1}}};
};

}  // namespace

ProbeReport probe_device(OpenDevice& device, ThrottleWatch& throttle, double budget_s,
                         double told_share, const std::function<void()>& after_round,
                         Device& found) {
  throttle.begin();  // the reasons are of this probe alone
  Probe probe(device, throttle);
  ProbeFigures figures;
  const int rounds = probe_rounds(
      budget_s, &host_seconds, [&](int) { probe.round(figures); }, after_round);
  ProbeReport report = tell(figures, rounds, told_share, found);
  if (const auto throttling = probe.throttling()) {
    report.warnings.push_back(fmt::format(
        "{}: {}", *throttling,
        report.throttled.empty() && report.curve_throttled.empty()
            ? "the others count"
            : "figures are lower than what it reaches; let it cool down, and probe again"));
  }
  return report;
}

}  // namespace forecost::cuda
