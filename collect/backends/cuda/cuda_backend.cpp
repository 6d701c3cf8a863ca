#include "collect/backends/cuda/cuda_backend.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "collect/backends/cuda/cuda_case.hpp"
#include "collect/backends/cuda/cuda_probe.hpp"
#include "collect/backends/cuda/gang_communicator.hpp"
#include "core/error.hpp"
#include "core/units.hpp"

namespace forecost {
namespace cuda {
namespace {

/// Kept free for the driver, the libraries' own buffers and fragments.
constexpr double memory_reserve = 0.1;

std::string slug(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      out += static_cast<char>(std::tolower(byte));
    } else if (!out.empty() && out.back() != '-') {
      out += '-';
    }
  }
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out;
}

/// "NVIDIA A100-SXM4-40GB MIG 1g.5gb": the card and the profile.
std::pair<std::string, std::string> card_and_profile(const std::string& name) {
  const auto at = name.find(" MIG ");
  if (at == std::string::npos) return {name, ""};
  return {name.substr(0, at), name.substr(at + 1)};
}

/// Of process ids, one at least.
template <class Processes>
std::string presence_of(const Processes& others) {
  const bool one = others.size() == 1;
  return fmt::format("{} {} {} on the device too", one ? "process" : "processes",
                     fmt::join(others, ", "), one ? "is" : "are");
}

class CudaBackend final : public TimingBackend {
 public:
  CudaBackend(const OpenableDevice& openable, Layout layout)
      : module_(openable.module),
        nvml_library_(Nvml::open()),
        nvml_(nvml_library_, openable.facts.uuid),
        device_handle_(openable),
        throttle_(nvml_),
        layout_(layout) {
    const DeviceFacts& facts = device_handle_.facts();
    device_.name = facts.name;
    device_.vendor = "NVIDIA";
    device_.kind = "gpu";
    device_.uuid = facts.uuid;
    utsname system{};
    if (uname(&system) == 0) device_.host = system.nodename;
    const double cap = nvml_.power_cap_w().value_or(0);
    // A card that has error correction and does without is told by NVML alone.
    device_.device_class = gpu_class(facts.name, cap, nvml_.default_power_cap_w().value_or(0),
                                     nvml_.ecc().has_value() && !*nvml_.ecc());
    set(Attribute::memory_bytes, static_cast<double>(facts.memory_bytes));
    set(Attribute::cores, static_cast<double>(facts.multiprocessors));
    set(Attribute::l2_bytes, static_cast<double>(facts.l2_bytes));
    set(Attribute::clock_hz,
        facts.clock_hz > 0 ? facts.clock_hz : nvml_.highest_clock_hz().value_or(0));
    set(Attribute::memory_clock_hz,
        facts.memory_clock_hz > 0 ? facts.memory_clock_hz : nvml_.memory_clock_hz().value_or(0));
    set(Attribute::power_cap_w, cap);
    set(Attribute::compute_capability, facts.capability_major + facts.capability_minor / 10.0);
    // A bus moves two bits a clock and line.
    set(Attribute::bandwidth_bytes_per_s,
        2 * facts.memory_clock_hz * static_cast<double>(facts.bus_width_bits) / 8);
  }

  std::string_view name() const override { return "cuda"; }
  Protocol protocol() const override { return Protocol::device_events; }
  const Device& device() const override { return device_; }

  ProbeReport probe(double budget_s, const std::function<void()>& after_round) override {
    std::set<std::uint32_t> others;
    const auto watch_others = [&] {
      for (const std::uint32_t process : foreign_processes()) others.insert(process);
    };
    try {
      watch_others();
      ProbeReport report = probe_device(
          device_handle_, throttle_, budget_s, upper_quartile,
          [&] {
            watch_others();
            if (after_round) after_round();
          },
          device_);
      if (!others.empty()) {
        report.warnings.push_back(fmt::format(
            "{} while {} was probed: figures may be lower than what it reaches; probe it again "
            "when it is yours alone",
            presence_of(others), device_.uuid));
      }
      return report;
    } catch (const ModuleError& error) {
      throw does_not_get_through("its probe", error);
    } catch (const CaseRefused& error) {
      throw does_not_get_through("its probe", error);
    }
  }
  void set_probed(Attribute attribute, double value) override { device_.set(attribute, value); }
  bool confirm_limits() override {
    constexpr int most = 3;
    if (confirmations_ == most) return false;
    ++confirmations_;
    const Device before = device_;
    try {
      probe_device(device_handle_, throttle_, brief_probe_s, best_round, {}, device_);
    } catch (const CaseRefused&) {
      device_ = before;
      return false;
    } catch (const ModuleError&) {
      device_ = before;
      return false;
    }
    keep_larger_limits(before, device_);
    return true;
  }

  std::vector<std::string> warnings() const override {
    std::vector<std::string> lines;
    if (!nvml_.known()) {
      lines.push_back(
          "the driver's management library (libnvidia-ml.so.1) does not answer: clocks, "
          "throttling and other processes stay unknown");
    }
    if (const auto others = foreign_processes(); !others.empty()) {
      lines.push_back(fmt::format("{} on {}: rows will be shared; wait for an exclusive device",
                                  format_counted(others.size(), "other process", "other processes"),
                                  device_.uuid));
    }
    if (const auto slow = throttle_reasons(nvml_.clock_reasons().value_or(0)); !slow.empty()) {
      lines.push_back(fmt::format("the clock of {} is held back now: {}", device_.uuid, slow));
    }
    if (nvml_.mig().value_or(false) && !device_.uuid.starts_with("MIG")) {
      lines.push_back(
          fmt::format("{} is in MIG mode: name a slice in CUDA_VISIBLE_DEVICES", device_.uuid));
    }
    return lines;
  }

  Environment environment() const override {
    Environment environment = measuring_environment("cuda");
    auto& facts = environment.facts;
    const Versions versions = module_->versions();
    const auto cuda_version = [](int number) {
      return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
    };
    facts["cuda_runtime"] = cuda_version(versions.runtime);
    facts["cuda_driver"] = cuda_version(versions.driver);
    // Since 9.0 cuDNN counts 90000 + 100 minor + patch.
    facts["cudnn"] = fmt::format("{}.{}.{}", versions.cudnn / 10000, versions.cudnn / 100 % 100,
                                 versions.cudnn % 100);
    if (versions.cublas_lt > 0) {
      facts["cublas_lt"] = fmt::format("{}.{}.{}", versions.cublas_lt / 10000,
                                       versions.cublas_lt / 100 % 100, versions.cublas_lt % 100);
    }
    if (versions.nccl > 0) {
      facts["nccl"] = fmt::format("{}.{}.{}", versions.nccl / 10000, versions.nccl / 100 % 100,
                                  versions.nccl % 100);
    }
    if (nvml_library_) facts["driver"] = nvml_library_->driver_version();
    facts["layout"] = layout_ == Layout::nhwc ? "nhwc" : "nchw";
    facts["cold_by"] = "write of twice the L2";
    for (const char* variable : {"NVIDIA_TF32_OVERRIDE", "CUBLASLT_WORKSPACE_SIZE",
                                 "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING"}) {
      if (const char* value = std::getenv(variable)) facts[variable] = value;
    }
    return environment;
  }

  double free_memory_bytes() const override {
    std::int64_t bytes = 0;
    const Outcome outcome = device_handle_.table().free_memory(device_handle_.context(), &bytes);
    if (outcome.code != Code::ok) return 0;
    return (1 - memory_reserve) * static_cast<double>(bytes);
  }

  std::optional<std::string> unsupported(const Task& task) const override {
    const Operator& op = task.layer.op();
    if (auto why = no_measurable_task(task, "cuda", find_cuda_operator(op.name) != nullptr)) {
      return why;
    }
    const int capability = device_handle_.capability();
    switch (task.dtype) {
      case DType::f32:
      case DType::f16:
        break;
      case DType::tf32:
      case DType::bf16:
        if (capability < 80) {
          return fmt::format("{} needs compute capability 8.0, this GPU has {}.{}",
                             name_of(task.dtype), capability / 10, capability % 10);
        }
        break;
      default:
        return fmt::format("the cuda backend has no {}", name_of(task.dtype));
    }
    if (task.dtype == DType::tf32 && family_of(op, task.pass) == Family::memory_bound) {
      return fmt::format("tf32 is a way of multiplying: {} has no products", op.name);
    }
    if (task.policy == AlgorithmPolicy::unknown)
      return "the algorithm policy is heuristic, find or fixed";
    if (task.policy != AlgorithmPolicy::heuristic && !has_algorithms(task)) {
      return fmt::format(
          "{} {} has no algorithms to choose among: measured by the policy heuristic", op.name,
          name_of(task.pass));
    }
    return std::nullopt;
  }

  std::unique_ptr<PreparedCase> prepare(const Task& task, std::uint64_t seed) override {
    return prepare_case(device_handle_, throttle_, task, layout_, seed);
  }

  void meet(Gang& gang) override { open_communicator(gang, device_handle_); }

  std::unique_ptr<PreparedCase> prepare_collective(const Task& task, std::uint64_t seed,
                                                   Gang& gang) override {
    Communicator* communicator = communicator_of(gang);
    if (task.dtype != DType::f32 && task.dtype != DType::f16 && task.dtype != DType::bf16) {
      throw CaseRefused(Status::unsupported,
                        fmt::format("NCCL adds f32, f16 and bf16, not {}", name_of(task.dtype)));
    }
    return prepare_recipe(device_handle_, throttle_, task, layout_, seed,
                          [&](Recipe& recipe) { describe_allreduce(recipe, task, communicator); });
  }

  double now_s() const override { return host_seconds(); }

  /// A device that is poisoned tells so by poisoned(): whoever asked for a spin wants nothing of
  /// it.
  void spin(double seconds) override {
    try {
      timed_spin(seconds);
    } catch (const ModuleError& error) {
      if (!poisoned()) throw does_not_get_through("a spin", error);
    }
  }

  double timed_spin(double seconds) {
    double device_s = 0;
    device_handle_.ask(device_handle_.table().spin(device_handle_.context(), seconds, &device_s));
    return device_s;
  }

  void watch() override {
    throttle_.begin();
    energy_j_ = nvml_.energy_j();
    watched_s_ = host_seconds();
  }

  Conditions conditions() override {
    constexpr double nan = Conditions::nan;
    throttle_.throttled();
    Conditions seen{.clock_hz = nvml_.clock_hz().value_or(nan),
                    .temperature_k = nvml_.temperature_k().value_or(nan),
                    .power_w = nvml_.power_w().value_or(nan)};
    // The driver's mean power is of its own window; what its counter of energy says is of ours,
    // where that is long enough for the counter's steps.
    const double elapsed_s = host_seconds() - watched_s_;
    if (const auto now = nvml_.energy_j(); now && energy_j_ && elapsed_s > 0.2) {
      seen.power_w = (*now - *energy_j_) / elapsed_s;
    }
    seen.throttled_by = throttle_.reasons();
    if (const auto others = foreign_processes(); !others.empty()) {
      seen.shared = presence_of(others);
    }
    return seen;
  }

  bool poisoned() const override { return device_handle_.poisoned(); }

 private:
  void set(Attribute attribute, double value) {
    if (!(value > 0)) return;
    try {
      device_.set(attribute, value);
    } catch (const UsageError& error) {
      throw EnvironmentError(fmt::format("{} ({}) says of itself {}: does its driver work?",
                                         device_.name, device_.uuid, error.what()));
    }
  }

  EnvironmentError does_not_get_through(std::string_view what,
                                        const std::runtime_error& error) const {
    return EnvironmentError(
        fmt::format("{} ({}) does not get through {}: {}; look at the driver's "
                    "log, leave the GPU out (CUDA_VISIBLE_DEVICES) or reset it",
                    device_.name, device_.uuid, what, error.what()));
  }

  static bool has_algorithms(const Task& task) {
    if (task.pass == Pass::update) return false;
    const Family family = family_of(task.layer.op(), task.pass);
    return family == Family::gemm || family == Family::convolution;
  }

  /// Without this one. In a container the driver's numbers are others than ours: then one process
  /// is taken to be this one.
  std::vector<std::uint32_t> foreign_processes() const {
    return without_this_process(nvml_.processes().value_or(std::vector<std::uint32_t>{}),
                                static_cast<std::uint32_t>(::getpid()), numbered_by_the_host());
  }

  std::shared_ptr<const Module> module_;
  std::shared_ptr<Nvml> nvml_library_;
  NvmlDevice nvml_;
  OpenDevice device_handle_;
  ThrottleWatch throttle_;
  Layout layout_;
  Device device_;
  std::optional<double> energy_j_;
  double watched_s_ = 0;
  int confirmations_ = 0;
};

/// openable_devices(); where no module opens, the management library still knows of GPUs.
std::vector<OpenableDevice> devices_here() {
  try {
    return openable_devices(module_folder());
  } catch (const UnusableGpu& error) {
    throw UnusableDevice(error.what());
  } catch (const NoGpu&) {
    throw;
  } catch (const EnvironmentError& error) {
    if (const auto nvml = Nvml::open(); nvml && nvml->gpus() > 0)
      throw UnusableDevice(error.what());
    throw;
  }
}

std::unique_ptr<TimingBackend> open_cuda(const DeviceRequest& request) {
  const Layout layout = request.layout == "nhwc" ? Layout::nhwc : Layout::nchw;
  const auto devices = devices_here();
  // GPUs are of the ranks that measure.
  const int index = device_of_rank(static_cast<int>(devices.size()),
                                   request.local_rank - (request.manager_on_host ? 1 : 0));
  if (index < 0) return nullptr;
  const OpenableDevice& device = devices[static_cast<std::size_t>(index)];
  if (!device.module) {
    throw UnusableDevice(fmt::format(
        "{} ({}) has compute capability {}.{}, for which no CUDA module here was built: build one "
        "with a CUDA Toolkit that knows it, beside the others",
        device.facts.name, device.facts.uuid, device.facts.capability_major,
        device.facts.capability_minor));
  }
  try {
    return std::make_unique<CudaBackend>(device, layout);
  } catch (const ModuleError& error) {
    throw UnusableDevice(fmt::format("{} ({}) does not open: {}", device.facts.name,
                                     device.facts.uuid, error.what()));
  }
}

}  // namespace

double timed_spin(TimingBackend& backend, double seconds) {
  return dynamic_cast<CudaBackend&>(backend).timed_spin(seconds);
}

std::string gpu_class(const std::string& cuda_name, double power_cap_w, double default_power_cap_w,
                      bool ecc_off) {
  const auto [card, profile] = card_and_profile(cuda_name);
  std::string name = shipped_gpu(card).value_or("");
  if (name.empty()) {
    name = slug(card);
    for (const std::string_view vendor : {"nvidia-", "tesla-", "geforce-"}) {
      if (name.starts_with(vendor)) name.erase(0, vendor.size());
    }
  }
  if (!profile.empty()) name += "-" + slug(profile);
  // Caps are set in whole watts; a driver reports the board's own within one.
  if (power_cap_w > 0 && power_cap_w < default_power_cap_w - 1) {
    name += fmt::format("-{:.0f}w", power_cap_w);
  }
  if (ecc_off) name += "-noecc";
  return name;
}

}  // namespace cuda

const BackendInfo cuda_backend{"cuda", "NVIDIA GPUs through the CUDA module", &cuda::open_cuda};

}  // namespace forecost
