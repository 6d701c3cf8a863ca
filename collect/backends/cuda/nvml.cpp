#include "collect/backends/cuda/nvml.hpp"

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

namespace forecost::cuda {

// Declarations of our own, after NVIDIA's "NVML API Reference Guide": CUDA 13 does not bring the
// header. Names with _v2, _v3 are those that the header's macros stand for.
namespace {

using Handle = void*;
using Return = int;
constexpr Return success = 0, insufficient_size = 7;
constexpr unsigned clock_sm = 1, clock_memory = 2, sensor_gpu = 0;

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory_bytes;
  unsigned gpu_instance, compute_instance;
};

}  // namespace

struct Nvml::Library {
  void* file = nullptr;
  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  Return (*driver_version)(char*, unsigned) = nullptr;
  Return (*count)(unsigned*) = nullptr;
  Return (*by_uuid)(const char*, Handle*) = nullptr;
  Return (*gpu_of_slice)(Handle, Handle*) = nullptr;
  Return (*clock)(Handle, unsigned, unsigned*) = nullptr;
  Return (*highest_clock)(Handle, unsigned, unsigned*) = nullptr;
  Return (*power)(Handle, unsigned*) = nullptr;
  Return (*energy)(Handle, unsigned long long*) = nullptr;
  Return (*temperature)(Handle, unsigned, unsigned*) = nullptr;
  Return (*reasons)(Handle, unsigned long long*) = nullptr;
  Return (*power_cap)(Handle, unsigned*) = nullptr;
  Return (*default_power_cap)(Handle, unsigned*) = nullptr;
  Return (*ecc)(Handle, unsigned*, unsigned*) = nullptr;
  Return (*mig)(Handle, unsigned*, unsigned*) = nullptr;
  Return (*processes)(Handle, unsigned*, ProcessInfo*) = nullptr;

  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(file, name));
  }
};

std::shared_ptr<Nvml> Nvml::open() {
  void* file = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) return nullptr;
  auto library = std::make_unique<Library>();
  library->file = file;
  library->find(library->init, "nvmlInit_v2");
  library->find(library->shutdown, "nvmlShutdown");
  library->find(library->driver_version, "nvmlSystemGetDriverVersion");
  library->find(library->count, "nvmlDeviceGetCount_v2");
  library->find(library->by_uuid, "nvmlDeviceGetHandleByUUID");
  library->find(library->gpu_of_slice, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
  library->find(library->clock, "nvmlDeviceGetClockInfo");
  library->find(library->highest_clock, "nvmlDeviceGetMaxClockInfo");
  library->find(library->power, "nvmlDeviceGetPowerUsage");
  library->find(library->energy, "nvmlDeviceGetTotalEnergyConsumption");
  library->find(library->temperature, "nvmlDeviceGetTemperature");
  // Drivers since 535 call it by the second name, and still have the first.
  library->find(library->reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  if (library->reasons == nullptr) {
    library->find(library->reasons, "nvmlDeviceGetCurrentClocksEventReasons");
  }
  library->find(library->power_cap, "nvmlDeviceGetEnforcedPowerLimit");
  library->find(library->default_power_cap, "nvmlDeviceGetPowerManagementDefaultLimit");
  library->find(library->ecc, "nvmlDeviceGetEccMode");
  library->find(library->mig, "nvmlDeviceGetMigMode");
  library->find(library->processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  if (library->init == nullptr || library->by_uuid == nullptr || library->init() != success) {
    dlclose(file);
    return nullptr;
  }
  return std::shared_ptr<Nvml>(new Nvml(std::move(library)));
}

Nvml::Nvml(std::unique_ptr<Library> library) : library_(std::move(library)) {}

Nvml::~Nvml() {
  if (library_->shutdown != nullptr) library_->shutdown();
  dlclose(library_->file);
}

std::string Nvml::driver_version() const {
  std::array<char, 96> text{};
  if (library_->driver_version == nullptr ||
      library_->driver_version(text.data(), text.size()) != success) {
    return {};
  }
  return text.data();
}

unsigned Nvml::gpus() const {
  unsigned count = 0;
  return library_->count != nullptr && library_->count(&count) == success ? count : 0;
}

std::string throttle_reasons(std::uint64_t bits) {
  constexpr std::pair<std::uint64_t, const char*> reasons[] = {
      {0x8, "hardware slowdown"},
      {0x10, "sync boost"},
      {0x20, "software thermal slowdown"},
      {0x40, "hardware thermal slowdown"},
      {0x80, "power brake"},
  };
  std::string text;
  for (const auto& [bit, name] : reasons) {
    if ((bits & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

NvmlDevice::NvmlDevice(std::shared_ptr<Nvml> nvml, const std::string& uuid)
    : nvml_(std::move(nvml)) {
  if (!nvml_ || nvml_->library_->by_uuid(uuid.c_str(), &device_) != success) {
    device_ = nullptr;
    return;
  }
  gpu_ = device_;
  if (uuid.starts_with("MIG") && nvml_->library_->gpu_of_slice != nullptr) {
    Handle gpu = nullptr;
    if (nvml_->library_->gpu_of_slice(device_, &gpu) == success) gpu_ = gpu;
  }
}

template <class Value, class Function, class... Arguments>
std::optional<Value> NvmlDevice::get(Function function, void* device,
                                     Arguments... arguments) const {
  Value value{};
  if (device == nullptr || nvml_->library_.get()->*function == nullptr ||
      (nvml_->library_.get()->*function)(device, arguments..., &value) != success) {
    return std::nullopt;
  }
  return value;
}

namespace {

std::optional<double> scaled(const std::optional<unsigned>& value, double unit) {
  if (!value) return std::nullopt;
  return *value * unit;
}

}  // namespace

std::optional<double> NvmlDevice::clock_hz() const {
  return scaled(get<unsigned>(&Nvml::Library::clock, gpu_, clock_sm), 1e6);
}
std::optional<double> NvmlDevice::memory_clock_hz() const {
  return scaled(get<unsigned>(&Nvml::Library::clock, gpu_, clock_memory), 1e6);
}
std::optional<double> NvmlDevice::highest_clock_hz() const {
  return scaled(get<unsigned>(&Nvml::Library::highest_clock, gpu_, clock_sm), 1e6);
}
std::optional<double> NvmlDevice::power_w() const {
  return scaled(get<unsigned>(&Nvml::Library::power, gpu_), 1e-3);
}
std::optional<double> NvmlDevice::energy_j() const {
  const auto value = get<unsigned long long>(&Nvml::Library::energy, gpu_);
  if (!value) return std::nullopt;
  return static_cast<double>(*value) * 1e-3;
}
std::optional<double> NvmlDevice::temperature_k() const {
  const auto celsius = get<unsigned>(&Nvml::Library::temperature, gpu_, sensor_gpu);
  if (!celsius) return std::nullopt;
  return *celsius + 273.15;
}
std::optional<std::uint64_t> NvmlDevice::clock_reasons() const {
  return get<unsigned long long>(&Nvml::Library::reasons, gpu_);
}
std::optional<double> NvmlDevice::power_cap_w() const {
  return scaled(get<unsigned>(&Nvml::Library::power_cap, gpu_), 1e-3);
}
std::optional<double> NvmlDevice::default_power_cap_w() const {
  return scaled(get<unsigned>(&Nvml::Library::default_power_cap, gpu_), 1e-3);
}
std::optional<bool> NvmlDevice::ecc() const {
  unsigned current = 0, pending = 0;
  if (gpu_ == nullptr || nvml_->library_->ecc == nullptr ||
      nvml_->library_->ecc(gpu_, &current, &pending) != success) {
    return std::nullopt;
  }
  return current != 0;
}
std::optional<bool> NvmlDevice::mig() const {
  unsigned current = 0, pending = 0;
  if (gpu_ == nullptr || nvml_->library_->mig == nullptr ||
      nvml_->library_->mig(gpu_, &current, &pending) != success) {
    return std::nullopt;
  }
  return current != 0;
}
std::optional<std::vector<std::uint32_t>> NvmlDevice::processes() const {
  if (device_ == nullptr || nvml_->library_->processes == nullptr) return std::nullopt;
  std::vector<ProcessInfo> found(16);
  for (;;) {
    auto count = static_cast<unsigned>(found.size());
    const Return answer = nvml_->library_->processes(device_, &count, found.data());
    if (answer == insufficient_size) {
      found.resize(2 * std::size_t{count} + 1);
      continue;
    }
    if (answer != success) return std::nullopt;
    std::vector<std::uint32_t> pids;
    for (unsigned i = 0; i < count; ++i) pids.push_back(found[i].pid);
    return pids;
  }
}

bool numbered_by_the_host() {
  // PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h: the namespace that every machine
  // begins with.
  constexpr std::string_view first_namespace = "pid:[4026531836]";
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/ns/pid", error) == first_namespace;
}

std::vector<std::uint32_t> without_this_process(std::vector<std::uint32_t> found, std::uint32_t own,
                                                bool numbered_by_the_host) {
  if (std::erase(found, own) == 0 && !numbered_by_the_host && !found.empty()) found.pop_back();
  return found;
}

}  // namespace forecost::cuda
