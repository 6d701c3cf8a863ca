#include "tests/cuda/standin/config.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace forecost::standin {
namespace {

using nlohmann::json;

/// Sets a member where the object has it; what no member asked for is an error, as it is mostly a
/// mistyped name.
class Reader {
 public:
  Reader(const json& object, std::string where) : object_(object), where_(std::move(where)) {}
  template <class T>
  Reader& operator()(const char* name, T& value) {
    known_.emplace_back(name);
    if (object_.contains(name)) value = object_.at(name).get<T>();
    return *this;
  }
  void finish() const {
    for (const auto& [name, value] : object_.items()) {
      if (std::find(known_.begin(), known_.end(), name) == known_.end())
        throw std::runtime_error(where_ + " has no \"" + name + "\"");
    }
  }

 private:
  const json& object_;
  std::string where_;
  std::vector<std::string> known_;
};

Model model_of(const json& object) {
  Model model;
  Reader read(object, "model");
  read("f32_flops", model.f32_flops)("tf32_flops", model.tf32_flops)("f16_flops", model.f16_flops);
  read("bandwidth", model.bandwidth)("host_bandwidth", model.host_bandwidth);
  read("kernel_s", model.kernel_s)("launch_s", model.launch_s)("noise", model.noise);
  read("link_latency", model.link_latency)("link_bandwidth", model.link_bandwidth);
  read("node_link_latency", model.node_link_latency);
  read("node_link_bandwidth", model.node_link_bandwidth);
  read.finish();
  return model;
}

Device standard_device(std::size_t index) {
  Device device;
  device.name = "Stand-in GPU";
  char text[64];
  std::snprintf(text, sizeof text, "GPU-57a4d14e-0000-4000-8000-%012zx", index);
  device.uuid = text;
  std::snprintf(text, sizeof text, "0000:%02zx:00.0", 0x17 + index);
  device.pci = text;
  return device;
}

Device device_of(const json& object, std::size_t index) {
  Device device = standard_device(index);
  json model = json::object();
  std::vector<int> capability = {device.capability_major, device.capability_minor};
  Reader read(object, "device");
  read("name", device.name)("uuid", device.uuid)("pci", device.pci)("parent", device.parent);
  read("memory_bytes", device.memory_bytes)("multiprocessors", device.multiprocessors);
  read("capability", capability)("l2_bytes", device.l2_bytes);
  read("bus_width_bits", device.bus_width_bits)("clock_hz", device.clock_hz);
  read("memory_clock_hz", device.memory_clock_hz)("ecc", device.ecc);
  read("power_limit_w", device.power_limit_w)("foreign_processes", device.foreign_processes);
  read("model", model);
  read.finish();
  device.capability_major = capability.at(0);
  device.capability_minor = capability.at(1);
  device.model = model_of(model);
  return device;
}

Faults faults_of(const json& object) {
  Faults faults;
  json silent = json::object();
  Reader read(object, "faults");
  read("allocation", faults.allocation)("allocation_above", faults.allocation_above);
  read("sticky_launch", faults.sticky_launch)("unsupported", faults.unsupported);
  read("nan", faults.nan)("once", faults.once)("after", faults.after);
  read("throttled_samples", faults.throttled_samples)("throttled_after", faults.throttled_after);
  read("slowdown", faults.slowdown)("throttle_reason", faults.throttle_reason);
  read("nccl_init_silent_rank", faults.nccl_init_silent_rank);
  read("nccl_async_error", faults.nccl_async_error)("nccl_silent_rank", silent);
  read.finish();
  Reader read_silent(silent, "nccl_silent_rank");
  read_silent("rank", faults.nccl_silent_rank)("after", faults.nccl_silent_after);
  read_silent.finish();
  return faults;
}

}  // namespace

Config read_config() {
  Config config;
  const char* path = std::getenv("FORECOST_STANDIN");
  if (path == nullptr || *path == 0) {
    config.devices.push_back(standard_device(0));
    return config;
  }
  try {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot be read");
    const json object = json::parse(file);
    json devices = json::array({json::object()});
    json faults = json::object();
    Reader read(object, "the file");
    read("devices", devices)("driver_version", config.driver_version)("nvml", config.nvml);
    read("faults", faults)("compute_limit_flops", config.compute_limit_flops);
    read("compute_limit_bytes", config.compute_limit_bytes)("report", config.report);
    read("node", config.node)("hang_s", config.hang_s);
    read.finish();
    for (const json& device : devices)
      config.devices.push_back(device_of(device, config.devices.size()));
    config.faults = faults_of(faults);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "FORECOST_STANDIN=%s: %s\n", path, error.what());
    std::abort();
  }
  return config;
}

std::vector<int> visible_devices(const Config& config, const char* variable) {
  std::vector<int> visible;
  const int count = static_cast<int>(config.devices.size());
  if (variable == nullptr) {
    for (int i = 0; i < count; ++i) visible.push_back(i);
    return visible;
  }
  std::istringstream list(variable);
  std::string item;
  while (std::getline(list, item, ',')) {
    int found = -1;
    if (item.rfind("GPU-", 0) == 0 || item.rfind("MIG-", 0) == 0) {
      for (int i = count - 1; i >= 0; --i)
        if (config.devices[i].uuid.rfind(item, 0) == 0) found = i;
    } else if (!item.empty() && item.find_first_not_of("0123456789") == std::string::npos) {
      found = std::stoi(item);
    }
    if (found < 0 || found >= count) break;  // as the driver does: the rest is not seen
    visible.push_back(found);
  }
  return visible;
}

}  // namespace forecost::standin
