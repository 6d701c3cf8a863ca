#include "collect/backends/cpu/probe.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "collect/backends/cpu/cpu_case.hpp"
#include "collect/backends/cpu/kernels.hpp"
#include "core/statistics.hpp"
#include "data/measurement.hpp"

namespace forecost::cpu {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

std::size_t team_size() { return static_cast<std::size_t>(omp_get_max_threads()); }

/// Beyond the last-level caches that a guest or a job really gets.
std::size_t memory_probe_bytes() { return std::max(512 * mib, 32 * mib * team_size()); }

/// What the team reads, or copies, at a time where memory's own rate is wanted.
std::size_t chunk_bytes() { return 4 * mib * team_size(); }

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

double seconds_per_run(const dnnl::engine& engine, Arena& arena, const RandomPool& pool,
                       const Task& task, int runs, double budget_s) {
  Flush flush;
  const CaseContext context{engine, arena, pool, flush, 1e18};
  const auto prepared = prepare_case(context, task, 1);
  return best_of(budget_s, 2, [&] { prepared->run(runs); }) / runs;
}

// What probes a limit must not fall short of it: as optimizer updates do, it loads 64 bytes at a
// time where the CPU can, and from four places in turn, which keeps more requests in flight.
FORECOST_CLONES std::uint64_t read_words(const std::uint64_t* words, std::size_t n,
                                         std::uint64_t mask) {
  const std::size_t quarter = n / 4;
  const std::uint64_t *a = words, *b = a + quarter, *c = b + quarter, *d = c + quarter;
  std::uint64_t sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < quarter; ++i) {
    sum += (a[i] ^ mask) + (b[i] ^ mask) + (c[i] ^ mask) + (d[i] ^ mask);
  }
  return sum;
}

/// Every thread reads its own part of the words again and again; bytes per second of all. What
/// takes long is timed piece by piece, since a piece falls between two disturbances and a whole
/// pass over a large working set would not. A quarter of the pieces reach the rate that is told,
/// since the best one, which a cache happens to hold, would flatter the set; of what is one piece,
/// the best pass counts.
double read_rate(std::span<const std::uint64_t> words, double budget_s) {
  const std::size_t threads = team_size(), share = words.size() / threads;
  const std::size_t pieces = std::max<std::size_t>(words.size_bytes() / chunk_bytes(), 1);
  const std::size_t piece = share / pieces;
  // A small one so often that the team's start and end, a microsecond or two, hardly count.
  const std::size_t repeats =
      pieces > 1 ? 1 : std::max<std::size_t>(1, 16 * mib / (piece * sizeof(std::uint64_t)));
  std::vector<double> rates;
  const auto bytes = static_cast<double>(repeats * piece * threads * sizeof(std::uint64_t));
  volatile std::uint64_t sink = 0;
  const double begin = seconds_now();
  for (int pass = 0; pass < 2 || seconds_now() - begin < budget_s; ++pass) {
    for (std::size_t p = 0; p < pieces; ++p) {
      std::uint64_t total = 0;
      const double start = seconds_now();
#pragma omp parallel reduction(+ : total)
      {
        const auto thread = static_cast<std::size_t>(omp_get_thread_num());
        const std::uint64_t* own = words.data() + thread * share + p * piece;
        for (std::size_t i = 0; i < repeats; ++i) total += read_words(own, piece, i);
      }
      const double seconds = seconds_now() - start;
      sink = total;
      if (pass > 0) rates.push_back(bytes / seconds);  // the first one fills the caches
    }
  }
  static_cast<void>(sink);
  std::sort(rates.begin(), rates.end());
  return quantile(rates, pieces > 1 ? upper_quartile : best_round);
}

/// Memory's own rate: chunk after chunk of a buffer far larger than the caches, so that each is
/// cold when its turn comes, yet short enough to fall between two disturbances. The best chunk
/// counts.
double memory_rate(std::span<std::uint64_t> words, double budget_s) {
  const std::size_t chunk = chunk_bytes() / sizeof(std::uint64_t);
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
  const std::size_t n = chunk_bytes() / sizeof(float);
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

/// The same of copies from one half to the other, each byte counted once.
double copy_rate(std::span<float> values, double budget_s) {
  const std::size_t half = values.size() / 2;
  const std::size_t chunk = chunk_bytes() / sizeof(float);
  double best = 0;
  const double begin = seconds_now();
  for (std::size_t at = 0; at + chunk <= half || seconds_now() - begin < budget_s; at += chunk) {
    if (at + chunk > half) at = 0;
    const double start = seconds_now();
#pragma omp parallel
    {
      const std::size_t share = chunk / static_cast<std::size_t>(omp_get_num_threads());
      const std::size_t from = at + static_cast<std::size_t>(omp_get_thread_num()) * share;
      std::memcpy(&values[half + from], &values[from], share * sizeof(float));
    }
    best = std::max(best, static_cast<double>(chunk * sizeof(float)) / (seconds_now() - start));
  }
  return best;
}

/// A working set lies elsewhere in the buffer in every round: how its pages fall into the sets of a
/// cache makes a third of the rate at the cache's own size, and a process keeps its pages.
std::size_t place_of(int round, std::size_t bytes, std::size_t buffer_bytes) {
  constexpr std::size_t page = 4096;
  constexpr double golden = 0.6180339887;  // spreads any number of rounds evenly
  const double share = std::fmod(golden * round, 1.0);
  return static_cast<std::size_t>(share * static_cast<double>(buffer_bytes - bytes)) / page * page;
}

void probe_arithmetic(const dnnl::engine& engine, Arena& arena, const RandomPool& pool,
                      bool has_bf16, double budget_s, ProbeFigures& figures) {
  const std::int64_t threads = omp_get_max_threads();
  // About a millisecond: shorter than the time slice that another process would take.
  const std::int64_t side = threads <= 4 ? 512 : threads <= 32 ? 1024 : 2048;
  const Layer product("dense", {{"batch", side}, {"in_features", side}, {"out_features", side}});
  const Layer convolution("conv2d", {{"batch", threads},
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
  const auto add_peak = [&](DType dtype, Attribute peak) {
    double best = 0;
    for (const Layer& layer : {product, convolution}) {
      const Task task{layer, Pass::forward, dtype};
      best = std::max(best,
                      task.work().flops / seconds_per_run(engine, arena, pool, task, 1, budget_s));
    }
    figures.rates[peak].add(best);
  };
  add_peak(DType::f32, Attribute::probed_f32_flops);
  if (has_bf16) add_peak(DType::bf16, Attribute::probed_bf16_flops);

  const Layer smallest("dense",
                       {{"batch", 1}, {"in_features", 1}, {"out_features", 1}, {"bias", 0}});
  figures.launches_per_s.add(
      1 / seconds_per_run(engine, arena, pool, Task{smallest}, 100, budget_s / 4));
}

void probe_memory(Arena& arena, int round, double budget_s, ProbeFigures& figures) {
  const std::size_t size = memory_probe_bytes();
  arena.reset(size);
  const std::span<std::uint64_t> words(static_cast<std::uint64_t*>(arena.take(size)),
                                       size / sizeof(std::uint64_t));
  const std::span<float> values(reinterpret_cast<float*>(words.data()), 2 * words.size());
  if (round == 0) {
#pragma omp parallel for schedule(static)
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = 0x3F8000003F800000;  // 1.0F, twice
  }
  figures.rates[Attribute::probed_bandwidth_bytes_per_s].add(
      std::max(memory_rate(words, budget_s), triad_rate(values, budget_s)));
  figures.rates[Attribute::probed_host_link_bytes_per_s].add(copy_rate(values, budget_s));

  for (std::size_t bytes = team_size() * 32 * 1024; bytes <= size; bytes *= 2) {
    const std::size_t at = place_of(round, bytes, size) / sizeof(std::uint64_t);
    figures.curve[static_cast<double>(bytes)].add(
        read_rate(words.subspan(at, bytes / sizeof(std::uint64_t)), budget_s / 8));
  }
}

}  // namespace

ProbeReport probe_device(const dnnl::engine& engine, Arena& arena, const RandomPool& pool,
                         bool has_bf16, double budget_s, double told_share,
                         const std::function<void()>& after_round, Device& device) {
  // Short pieces, since a neighbour or another process disturbs for some hundred milliseconds, and
  // several rounds, so that not all of them are: a disturbed limit is one that honest rows exceed.
  constexpr double piece_s = 0.08;
  ProbeFigures figures;
  const int rounds = probe_rounds(
      budget_s, &seconds_now,
      [&](int round) {
        probe_arithmetic(engine, arena, pool, has_bf16, piece_s, figures);
        probe_memory(arena, round, piece_s, figures);
      },
      after_round);
  return tell(figures, rounds, told_share, device);
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
