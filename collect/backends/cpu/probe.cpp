#include "collect/backends/cpu/probe.hpp"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
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
  Flush flush;
  const CaseContext context{engine, arena, pool, flush, 1e18};
  const Task task{layer, Pass::forward, dtype};
  const auto prepared = prepare_case(context, task, 1);
  return task.work().flops / best_of(budget_s, 2, [&] { prepared->run(1); });
}

// What probes a limit must not fall short of it: as optimizer updates do, it loads 64 bytes at a
// time where the CPU can, and from four places in turn, which keeps more requests in flight.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
__attribute__((target_clones("avx512f", "default")))
#endif
std::uint64_t
read_words(const std::uint64_t* words, std::size_t n, std::uint64_t mask) {
  const std::size_t quarter = n / 4;
  const std::uint64_t *a = words, *b = a + quarter, *c = b + quarter, *d = c + quarter;
  std::uint64_t sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < quarter; ++i) {
    sum += (a[i] ^ mask) + (b[i] ^ mask) + (c[i] ^ mask) + (d[i] ^ mask);
  }
  return sum;
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
        total += read_words(part, share, round);
      }
    }
    sink = total;
  });
  return static_cast<double>(rounds * share * threads * sizeof(std::uint64_t)) / best;
}

/// Memory's own rate: chunk after chunk of a buffer far larger than the caches, so that each is
/// cold when its turn comes, yet short enough to fall between two disturbances. The best chunk
/// counts.
double memory_rate(std::span<std::uint64_t> words, double budget_s) {
  const std::size_t chunk =
      4 * mib / sizeof(std::uint64_t) * static_cast<std::size_t>(omp_get_max_threads());
  std::uint64_t total = 0;
  double best = 0;
  const double begin = seconds_now();
  for (std::size_t at = 0; at + chunk <= words.size() || seconds_now() - begin < budget_s;) {
    if (at + chunk > words.size()) at = 0;
    const double start = seconds_now();
#pragma omp parallel reduction(+ : total)
    {
      const std::size_t share = chunk / static_cast<std::size_t>(omp_get_num_threads());
      const auto thread = static_cast<std::size_t>(omp_get_thread_num());
      total += read_words(words.data() + at + thread * share, share, 0);
    }
    best = std::max(best,
                    static_cast<double>(chunk * sizeof(std::uint64_t)) / (seconds_now() - start));
    at += chunk;
  }
  // The buffer is not all zeros: this keeps the reads without being true.
  return total == 0 ? 0 : best;
}

/// The same of a = b + s c, counted as STREAM does: two reads and a write.
double triad_rate(std::span<float> values, double budget_s) {
  constexpr std::size_t n = 8 * mib / sizeof(float);
  double best = 0;
  const double begin = seconds_now();
  for (std::size_t at = 0; at + 3 * n <= values.size() || seconds_now() - begin < budget_s;) {
    if (at + 3 * n > values.size()) at = 0;
    float* a = values.data() + at;
    const float *b = a + n, *c = b + n;
    const double start = seconds_now();
#pragma omp parallel for simd schedule(static)
    for (std::size_t i = 0; i < n; ++i) a[i] = b[i] + 3.F * c[i];
    best = std::max(best, static_cast<double>(3 * n * sizeof(float)) / (seconds_now() - start));
    at += 3 * n;
  }
  return best;
}

}  // namespace

void probe_device(const dnnl::engine& engine, Arena& arena, const RandomPool& pool, bool has_bf16,
                  bool thorough, Device& device) {
  // Several rounds, the best of each kind: a neighbour or another process that disturbs for some
  // hundred milliseconds would else become a limit that honest rows exceed.
  const int rounds = thorough ? 40 : 3;
  constexpr double budget_s = 0.08;
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());

  // About a millisecond: shorter than the time slice that another process would take.
  const std::int64_t side = threads <= 4 ? 512 : threads <= 32 ? 1024 : 2048;
  const Layer product("dense", {{"batch", side}, {"in_features", side}, {"out_features", side}});
  const Layer convolution("conv2d", {{"batch", static_cast<std::int64_t>(threads)},
                                     {"in_channels", 128},
                                     {"out_channels", 128},
                                     {"in_h", 28},
                                     {"in_w", 28},
                                     {"kernel_h", 3},
                                     {"kernel_w", 3},
                                     {"pad_top", 1},
                                     {"pad_bottom", 1},
                                     {"pad_left", 1},
                                     {"pad_right", 1}});
  const Layer smallest("dense",
                       {{"batch", 1}, {"in_features", 1}, {"out_features", 1}, {"bias", 0}});

  double f32 = 0, bf16 = 0, launch_s = 1, memory = 0, streamed = 0;
  std::map<std::size_t, double> cached;  // by size
  for (int round = 0; round < rounds; ++round) {
    for (const Layer& layer : {product, convolution}) {
      f32 = std::max(f32, best_flops(engine, arena, pool, layer, DType::f32, budget_s));
      if (has_bf16)
        bf16 = std::max(bf16, best_flops(engine, arena, pool, layer, DType::bf16, budget_s));
    }
    {
      Flush flush;
      const CaseContext context{engine, arena, pool, flush, 1e18};
      const auto prepared = prepare_case(context, Task{smallest}, 1);
      launch_s = std::min(launch_s, best_of(budget_s / 4, 10, [&] { prepared->run(100); }) / 100);
    }
    arena.reset(memory_probe_bytes);
    const std::span<std::uint64_t> words(
        static_cast<std::uint64_t*>(arena.take(memory_probe_bytes)),
        memory_probe_bytes / sizeof(std::uint64_t));
    const std::span<float> values(reinterpret_cast<float*>(words.data()), 2 * words.size());
    if (round == 0) {
#pragma omp parallel for schedule(static)
      for (std::size_t i = 0; i < words.size(); ++i) words[i] = 0x3F8000003F800000;  // 1.0F, twice
    }
    memory = std::max(memory, memory_rate(words, budget_s));
    streamed = std::max(streamed, triad_rate(values, budget_s));
    for (std::size_t bytes = threads * 32 * 1024; bytes < effective_cache_limit; bytes *= 2) {
      double& best = cached[bytes];
      best = std::max(best, read_rate(words.first(bytes / sizeof(std::uint64_t)),
                                      std::max<std::size_t>(1, 4 * mib / bytes), budget_s / 8));
    }
  }

  device.set(Attribute::probed_f32_flops, f32);
  if (has_bf16) device.set(Attribute::probed_bf16_flops, bf16);
  device.set(Attribute::probed_launch_latency_s, launch_s);
  device.set(Attribute::probed_bandwidth_bytes_per_s, std::max(memory, streamed));
  double cache = 0;
  std::size_t effective = effective_cache_limit;
  for (const auto& [bytes, rate] : cached) cache = std::max(cache, rate);
  // From the largest down: the smallest size that is served more nearly at memory's rate than at a
  // last-level cache's, which is two times faster or more. In between the answer would change from
  // probe to probe, and with it the flush and every cold time.
  for (auto size = cached.rbegin(); size != cached.rend() && size->second < 1.6 * memory; ++size) {
    effective = size->first;
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
