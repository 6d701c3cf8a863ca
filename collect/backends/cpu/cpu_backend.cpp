#include "collect/backends/cpu/cpu_backend.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "collect/backends/cpu/cores.hpp"
#include "collect/backends/cpu/cpu_case.hpp"
#include "collect/backends/cpu/host_state.hpp"
#include "collect/backends/cpu/load.hpp"
#include "collect/backends/cpu/probe.hpp"
#include "collect/backends/cpu/recipe.hpp"
#include "core/hash.hpp"
#include "core/units.hpp"

namespace forecost {
namespace {

using namespace cpu;

constexpr std::size_t mib = std::size_t{1} << 20;
/// Kept free for everybody else.
constexpr double memory_reserve = 0.1;
/// A row is shared where other programs took more than this share of a core's time. What comes in
/// bursts of less leaves the median between the quartiles of undisturbed samples.
constexpr double tolerated_load = 0.2;

class CpuBackend final : public TimingBackend {
 public:
  CpuBackend(const Topology& topology, std::vector<int> cores, const DeviceRequest& request)
      : team_(std::move(cores)),
        load_(team_.cores()),
        bound_(topology.cores.bound),
        llc_cores_(topology.llc_cores),
        local_devices_(std::max(1, request.local_size)),
        engine_(dnnl::engine::kind::cpu, 0) {
    const int count = static_cast<int>(team_.cores().size());
    device_.name = topology.model;
    device_.vendor = topology.vendor;
    device_.kind = "cpu";
    device_.device_class = cpu_class(topology.model, count);
    utsname system{};
    if (uname(&system) == 0) device_.host = system.nodename;
    device_.uuid =
        fmt::format("cpu-{}", short_id(fmt::format("{} {} {}", topology.machine_id, device_.host,
                                                   fmt::join(team_.cores(), ","))));
    device_.set(Attribute::cores, count);
    if (topology.clock_hz > 0) device_.set(Attribute::clock_hz, topology.clock_hz);
    if (topology.llc_bytes > 0) device_.set(Attribute::llc_bytes, topology.llc_bytes);
    if (topology.memory_bytes > 0) device_.set(Attribute::memory_bytes, topology.memory_bytes);
    // Until a probe has told how much is needed.
    flush_.resize(topology.llc_bytes > 0 ? 2 * topology.llc_bytes : 64.0 * mib);
  }

  std::string_view name() const override { return "cpu"; }
  Protocol protocol() const override { return Protocol::host_clock; }
  const Device& device() const override { return device_; }

  ProbeReport probe(double budget_s, const std::function<void()>& after_round) override {
    return probe(budget_s, upper_quartile, after_round);
  }

  void set_probed(Attribute attribute, double value) override { device_.set(attribute, value); }

  std::vector<std::string> warnings() const override {
    constexpr auto moment = std::chrono::milliseconds(500);
    std::vector<int> device = team_.cores();
    std::sort(device.begin(), device.end());
    // The team may still be waiting for work in a loop, and would be seen as load.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    HostState host = watch_host("/", device, [&] { std::this_thread::sleep_for(moment); });
    if (device_.has(Attribute::llc_bytes)) host.llc_bytes = device_[Attribute::llc_bytes];
    host.llc_cores = llc_cores_;
    auto lines = warnings_of(host);
    if (auto line = pinning_warning(bound_, device, local_devices_); !line.empty()) {
      lines.push_back(std::move(line));
    }
    return lines;
  }

  bool confirm_limits() override {
    constexpr int most = 3;
    if (confirmations_ == most) return false;
    ++confirmations_;
    const Device before = device_;
    probe(brief_probe_s, best_round, {});
    keep_larger_limits(before, device_);
    return true;
  }

  Environment environment() const override {
    Environment environment = measuring_environment("cpu");
    auto& facts = environment.facts;
    const dnnl_version_t* onednn = dnnl::version();
    facts["onednn"] = fmt::format("{}.{}.{}", onednn->major, onednn->minor, onednn->patch);
    if (const std::string commit = onednn->hash == nullptr ? "" : onednn->hash; commit != "N/A") {
      facts["onednn_commit"] = commit;
    }
    facts["onednn_headers"] =
        fmt::format("{}.{}.{}", DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH);
    facts["cpu_isa"] = cpu_isa_name();
    facts["cold_by"] = flush_.name();
    std::ifstream governor("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    if (std::string text; governor >> text) facts["cpu_governor"] = text;
    for (const char* variable : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
      if (const char* value = std::getenv(variable)) facts[variable] = value;
    }
    return environment;
  }

  std::vector<int> processors() const override { return team_.cores(); }

  double free_memory_bytes() const override {
    // The arena's own pages count as used, and can be used again.
    const double reusable = static_cast<double>(std::min(arena_.capacity(), 1024 * mib));
    return (1 - memory_reserve) * (available_memory_bytes() + reusable) / local_devices_;
  }

  std::optional<std::string> unsupported(const Task& task) const override {
    if (auto why =
            no_measurable_task(task, "cpu", find_cpu_operator(task.layer.op().name) != nullptr)) {
      return why;
    }
    if (task.dtype == DType::bf16 && !cpu_has_bf16()) {
      return "this CPU has no bf16 instructions; oneDNN would emulate them";
    }
    if (task.dtype != DType::f32 && task.dtype != DType::bf16) {
      return fmt::format("the cpu backend has no {}", name_of(task.dtype));
    }
    if (task.policy != AlgorithmPolicy::heuristic) {
      return fmt::format("the cpu backend leaves the algorithm to oneDNN (heuristic), not {}",
                         name_of(task.policy));
    }
    return std::nullopt;
  }

  std::unique_ptr<PreparedCase> prepare(const Task& task, std::uint64_t seed) override {
    const CaseContext context{engine_, arena_, pool_, flush_, free_memory_bytes()};
    return prepare_case(context, task, seed);
  }

  std::unique_ptr<PreparedCase> prepare_collective(const Task& task, std::uint64_t seed,
                                                   Gang& gang) override {
    const CaseContext context{engine_, arena_, pool_, flush_, free_memory_bytes()};
    return prepare_recipe(context, seed,
                          [&](Recipe& recipe) { describe_allreduce(recipe, task, gang); });
  }

  double now_s() const override { return seconds_now(); }

  void spin(double seconds) override {
    const double end = now_s() + seconds;
    while (now_s() < end) sink_ = sum_f32(pool_.values());
  }

  void watch() override { load_.begin(); }

  Conditions conditions() override {
    Conditions seen{.clock_hz = current_clock_hz(team_.cores().front()),
                    .foreign_share = load_.lost_share()};
    if (seen.foreign_share > tolerated_load) {
      seen.shared = fmt::format("other programs took {} of a core's time while it was sampled",
                                format_percent(seen.foreign_share, 0));
    }
    return seen;
  }

 private:
  ProbeReport probe(double budget_s, double told_share, const std::function<void()>& after_round) {
    ProbeReport report = probe_device(engine_, arena_, pool_, cpu_has_bf16(), budget_s, told_share,
                                      after_round, device_);
    arena_.trim();
    // Caches do not replace the oldest line first: what is just as large as they are leaves some of
    // the operands there (updates then ran at 1.3 times memory's bandwidth).
    if (device_.has(Attribute::probed_cache_bytes)) {
      flush_.resize(2 * device_[Attribute::probed_cache_bytes]);
    }
    return report;
  }

  PinnedTeam team_;
  Load load_;
  std::vector<int> bound_;  ///< the cores of this process before the team was tied to its own
  int llc_cores_, local_devices_;
  dnnl::engine engine_;
  Device device_;
  Arena arena_;
  RandomPool pool_;
  Flush flush_;
  volatile double sink_ = 0;
  int confirmations_ = 0;
};

std::unique_ptr<TimingBackend> open_cpu(const DeviceRequest& request) {
  const Topology topology = read_topology();
  std::vector<int> cores = choose_cores(topology.cores, request);
  if (cores.empty()) return nullptr;
  return std::make_unique<CpuBackend>(topology, std::move(cores), request);
}

}  // namespace

const BackendInfo cpu_backend{"cpu", "oneDNN on the cores that this process is bound to",
                              &open_cpu};

}  // namespace forecost
