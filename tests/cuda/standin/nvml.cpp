#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "tests/cuda/standin/memory.hpp"
#include "tests/cuda/standin/state.hpp"

// NVIDIA's management library: libnvidia-ml.so.1. No header of it comes with CUDA 13; the
// declarations are after NVIDIA's "NVML API Reference Guide". It sees all devices, whatever
// CUDA_VISIBLE_DEVICES says.

using namespace forecost::standin;

namespace {

using Return = int;
constexpr Return success = 0, uninitialized = 1, invalid_argument = 2, not_supported = 3,
                 not_found = 6, insufficient_size = 7, driver_not_loaded = 9;

struct Device_t;
using Handle = Device_t*;

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory_bytes;
  unsigned gpu_instance, compute_instance;
};

int& users() {
  static int count = 0;
  return count;
}

/// Index + 1 as the address.
Handle handle_of(std::size_t index) { return reinterpret_cast<Handle>(index + 1); }

const Device* device_of(Handle handle) {
  const std::size_t index = reinterpret_cast<std::size_t>(handle);
  const Config& config = state().config;
  return index == 0 || index > config.devices.size() ? nullptr : &config.devices[index - 1];
}

/// Sets a value of a living library and device.
template <class Set>
Return with_device(const char* name, Handle handle, Set set) {
  const Call call(name);
  if (users() == 0) {
    violation("nvml", std::string(name) + " without nvmlInit");
    return uninitialized;
  }
  const Device* device = device_of(handle);
  if (device == nullptr) {
    violation("nvml", std::string(name) + " of a device that there is not");
    return invalid_argument;
  }
  return set(*device);
}

/// Now, of the virtual clock.
double now_s() { return state().host_s; }

double power_w(const Device& device) {
  return state().throttled() ? device.power_limit_w : 0.6 * device.power_limit_w;
}

}  // namespace

extern "C" {

Return nvmlInit_v2() {
  const Call call("nvmlInit_v2");
  if (!state().config.nvml || state().config.driver_version == 0) return driver_not_loaded;
  ++users();
  return success;
}
Return nvmlShutdown() {
  const Call call("nvmlShutdown");
  if (users() == 0) {
    violation("nvml", "nvmlShutdown more often than nvmlInit");
    return uninitialized;
  }
  --users();
  return success;
}

Return nvmlSystemGetDriverVersion(char* text, unsigned room) {
  const Call call("nvmlSystemGetDriverVersion");
  if (users() == 0) return uninitialized;
  std::snprintf(text, room, "%s", "580.65.06");
  return success;
}

Return nvmlDeviceGetCount_v2(unsigned* count) {
  const Call call("nvmlDeviceGetCount_v2");
  if (users() == 0) return uninitialized;
  *count = 0;
  for (const Device& device : state().config.devices) *count += device.parent.empty() ? 1 : 0;
  return success;
}

Return nvmlDeviceGetHandleByUUID(const char* uuid, Handle* handle) {
  const Call call("nvmlDeviceGetHandleByUUID");
  if (users() == 0) return uninitialized;
  const auto& devices = state().config.devices;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].uuid == uuid) {
      *handle = handle_of(i);
      return success;
    }
  return not_found;
}

Return nvmlDeviceGetHandleByPciBusId_v2(const char* pci, Handle* handle) {
  const Call call("nvmlDeviceGetHandleByPciBusId_v2");
  if (users() == 0) return uninitialized;
  const auto& devices = state().config.devices;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (devices[i].pci == pci) {
      *handle = handle_of(i);
      return success;
    }
  return not_found;
}

Return nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Handle slice, Handle* gpu) {
  return with_device("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", slice,
                     [&](const Device& device) {
                       if (device.parent.empty()) return invalid_argument;
                       return nvmlDeviceGetHandleByUUID(device.parent.c_str(), gpu) == success
                                  ? success
                                  : (*gpu = slice, success);
                     });
}

Return nvmlDeviceGetUUID(Handle handle, char* text, unsigned room) {
  return with_device("nvmlDeviceGetUUID", handle, [&](const Device& device) {
    std::snprintf(text, room, "%s", device.uuid.c_str());
    return success;
  });
}

Return nvmlDeviceGetName(Handle handle, char* text, unsigned room) {
  return with_device("nvmlDeviceGetName", handle, [&](const Device& device) {
    std::snprintf(text, room, "%s", device.name.c_str());
    return success;
  });
}

Return nvmlDeviceGetClockInfo(Handle handle, unsigned clock, unsigned* mhz) {
  return with_device("nvmlDeviceGetClockInfo", handle, [&](const Device& device) {
    const double slowdown = state().throttled() ? state().config.faults.slowdown : 1;
    *mhz = static_cast<unsigned>(
        std::lround((clock == 2 ? device.memory_clock_hz : device.clock_hz / slowdown) / 1e6));
    return success;
  });
}
Return nvmlDeviceGetMaxClockInfo(Handle handle, unsigned clock, unsigned* mhz) {
  return with_device("nvmlDeviceGetMaxClockInfo", handle, [&](const Device& device) {
    *mhz = static_cast<unsigned>(
        std::lround((clock == 2 ? device.memory_clock_hz : device.clock_hz) / 1e6));
    return success;
  });
}

Return nvmlDeviceGetPowerUsage(Handle handle, unsigned* milliwatt) {
  return with_device("nvmlDeviceGetPowerUsage", handle, [&](const Device& device) {
    *milliwatt = static_cast<unsigned>(power_w(device) * 1e3);
    return success;
  });
}
Return nvmlDeviceGetTotalEnergyConsumption(Handle handle, unsigned long long* millijoule) {
  return with_device("nvmlDeviceGetTotalEnergyConsumption", handle, [&](const Device& device) {
    *millijoule = static_cast<unsigned long long>(now_s() * 0.6 * device.power_limit_w * 1e3);
    return success;
  });
}
Return nvmlDeviceGetEnforcedPowerLimit(Handle handle, unsigned* milliwatt) {
  return with_device("nvmlDeviceGetEnforcedPowerLimit", handle, [&](const Device& device) {
    *milliwatt = static_cast<unsigned>(device.power_limit_w * 1e3);
    return success;
  });
}
Return nvmlDeviceGetPowerManagementDefaultLimit(Handle handle, unsigned* milliwatt) {
  return with_device("nvmlDeviceGetPowerManagementDefaultLimit", handle, [&](const Device&) {
    *milliwatt = 700000;
    return success;
  });
}

Return nvmlDeviceGetTemperature(Handle handle, unsigned, unsigned* celsius) {
  return with_device("nvmlDeviceGetTemperature", handle, [&](const Device&) {
    *celsius = state().throttled() ? 92 : 55;
    return success;
  });
}

Return nvmlDeviceGetCurrentClocksThrottleReasons(Handle handle, unsigned long long* reasons) {
  return with_device("nvmlDeviceGetCurrentClocksThrottleReasons", handle, [&](const Device&) {
    const bool power = state().config.faults.throttle_reason == "power";
    *reasons = !state().throttled() ? 0 : power ? 0x80 : 0x20;
    return success;
  });
}
Return nvmlDeviceGetCurrentClocksEventReasons(Handle handle, unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksThrottleReasons(handle, reasons);
}

Return nvmlDeviceGetEccMode(Handle handle, unsigned* current, unsigned* pending) {
  return with_device("nvmlDeviceGetEccMode", handle, [&](const Device& device) {
    *current = *pending = device.ecc ? 1 : 0;
    return success;
  });
}
Return nvmlDeviceGetMigMode(Handle handle, unsigned* current, unsigned* pending) {
  return with_device("nvmlDeviceGetMigMode", handle, [&](const Device& device) {
    bool sliced = !device.parent.empty();
    for (const Device& other : state().config.devices)
      sliced = sliced || other.parent == device.uuid;
    *current = *pending = sliced ? 1 : 0;
    return success;
  });
}

Return nvmlDeviceGetComputeRunningProcesses_v3(Handle handle, unsigned* count,
                                               ProcessInfo* processes) {
  return with_device("nvmlDeviceGetComputeRunningProcesses_v3", handle, [&](const Device& device) {
    const State& all = state();
    std::vector<unsigned> found = device.foreign_processes;
    // A process is there as long as it has a context, and so anything in it.
    if ((device_bytes_in_use() > 0 || !all.streams.alive().empty()) && &all.device() == &device)
      found.push_back(static_cast<unsigned>(getpid()));
    const unsigned room = *count;
    *count = static_cast<unsigned>(found.size());
    if (room < *count) return insufficient_size;
    for (unsigned i = 0; i < *count; ++i)
      processes[i] = {found[i], static_cast<unsigned long long>(64 << 20), ~0u, ~0u};
    return success;
  });
}

}  // extern "C"
