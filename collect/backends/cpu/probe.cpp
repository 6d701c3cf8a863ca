#include "collect/backends/cpu/probe.hpp"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "collect/backends/cpu/cpu_case.hpp"
#include "data/measurement.hpp"

namespace forecost::cpu {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
/// Beyond the last-level caches of one socket that a guest or a job really gets.
constexpr std::size_t memory_probe_bytes = 512 * mib;
constexpr std::size_t effective_cache_limit = 256 * mib;  // MEASURING.md rule 4

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The shortest of repeated runs, after one that does not count.
double best_of(double budget_s, int min_runs, const std::function<void()>& run) {
  run();
  const double begin = seconds_now();
  double best = 1e30;
  for (int i = 0; i < min_runs || seconds_now() - begin < budget_s; ++i) {
    const double start = seconds_now();
    run();
    best = std::min(best, seconds_now() - start);
  }
  return best;
}

double best_flops(const dnnl::engine& engine, Arena& arena, const RandomPool& pool,
                  const Layer& layer, DType dtype, double budget_s) {
  const CaseContext context{engine, arena, pool, {}, 1e18};
  const Task task{layer, Pass::forward, dtype};
  const auto prepared = prepare_layer_case(context, task, 1);
  return task.work().flops / best_of(budget_s, 2, [&] { prepared->run(1); });
}

/// Every thread reads its own part `rounds` times; bytes per second of all.
double read_rate(std::span<const std::uint64_t> words, std::size_t rounds, double budget_s) {
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  const std::size_t share = words.size() / threads;
  volatile std::uint64_t sink = 0;
  const double best = best_of(budget_s, 2, [&] {
    std::uint64_t total = 0;
#pragma omp parallel reduction(+ : total)
    {
      const std::uint64_t* part =
          words.data() + static_cast<std::size_t>(omp_get_thread_num()) * share;
      for (std::size_t round = 0; round < rounds; ++round) {
        std::uint64_t sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::size_t i = 0; i < share; ++i) sum += part[i] ^ round;
        total += sum;
      }
    }
    sink = total;
  });
  return static_cast<double>(rounds * share * threads * sizeof(std::uint64_t)) / best;
}

/// a = b + s c, counted as STREAM does: two reads and a write.
double triad_rate(std::span<float> values, double budget_s) {
  const std::size_t n = values.size() / 3;
  float* a = values.data();
  const float *b = a + n, *c = b + n;
  const double best = best_of(budget_s, 2, [&] {
#pragma omp parallel for simd schedule(static)
    for (std::size_t i = 0; i < n; ++i) a[i] = b[i] + 3.F * c[i];
  });
  return static_cast<double>(3 * n * sizeof(float)) / best;
}

}  // namespace

void probe_device(const dnnl::engine& engine, Arena& arena, const RandomPool& pool, bool has_bf16,
                  bool thorough, Device& device) {
  const double unit_s = thorough ? 1 : 0.1;  // budgets below are multiples of it
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());

  // Large enough that every core has work for milliseconds.
  const std::int64_t side = threads <= 16 ? 1024 : 4096;
  const Layer product("dense", {{"batch", side}, {"in_features", side}, {"out_features", side}});
  const Layer convolution("conv2d", {{"batch", static_cast<std::int64_t>(threads)},
                                     {"in_channels", 256},
                                     {"out_channels", 256},
                                     {"in_h", 28},
                                     {"in_w", 28},
                                     {"kernel_h", 3},
                                     {"kernel_w", 3},
                                     {"pad_top", 1},
                                     {"pad_bottom", 1},
                                     {"pad_left", 1},
                                     {"pad_right", 1}});
  const auto peak = [&](DType dtype) {
    return std::max(best_flops(engine, arena, pool, product, dtype, 3 * unit_s),
                    best_flops(engine, arena, pool, convolution, dtype, 2 * unit_s));
  };
  device.set(Attribute::probed_f32_flops, peak(DType::f32));
  if (has_bf16) device.set(Attribute::probed_bf16_flops, peak(DType::bf16));

  const Layer smallest("dense",
                       {{"batch", 1}, {"in_features", 1}, {"out_features", 1}, {"bias", 0}});
  {
    const CaseContext context{engine, arena, pool, {}, 1e18};
    const auto prepared = prepare_layer_case(context, Task{smallest}, 1);
    device.set(Attribute::probed_launch_latency_s,
               best_of(unit_s, 10, [&] { prepared->run(1000); }) / 1000);
  }

  arena.reset(memory_probe_bytes);
  const std::span<std::uint64_t> words(static_cast<std::uint64_t*>(arena.take(memory_probe_bytes)),
                                       memory_probe_bytes / sizeof(std::uint64_t));
  const std::span<float> values(reinterpret_cast<float*>(words.data()), 2 * words.size());
#pragma omp parallel for schedule(static)
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = 0x3F8000003F800000;  // 1.0F, twice

  const double memory = read_rate(words, 1, 2 * unit_s);
  device.set(Attribute::probed_bandwidth_bytes_per_s,
             std::max(memory, triad_rate(values, 2 * unit_s)));
  double cache = 0;
  std::size_t effective = effective_cache_limit;
  bool in_cache = true;
  for (std::size_t bytes = threads * 32 * 1024; bytes < effective_cache_limit; bytes *= 2) {
    const double rate = read_rate(words.first(bytes / sizeof(std::uint64_t)),
                                  std::max<std::size_t>(1, 8 * mib / bytes), 0.3 * unit_s);
    cache = std::max(cache, rate);
    // The first size that memory itself would serve as fast.
    if (in_cache && rate < 1.15 * memory) {
      effective = bytes;
      in_cache = false;
    }
  }
  device.set(Attribute::probed_cache_bandwidth_bytes_per_s, cache);
  device.set(Attribute::probed_cache_bytes, static_cast<double>(effective));
}

std::string cpu_isa_name() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return std::to_string(static_cast<int>(dnnl::get_effective_cpu_isa()));
  }
}

bool cpu_has_bf16() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
}

}  // namespace forecost::cpu
