#include "cuda/module/devices.hpp"

#include <nccl.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <string>

#include "cuda/module/context.hpp"

namespace forecost::cuda {

namespace {

template <std::size_t size>
void copy_text(char (&to)[size], const std::string& from) {
  const std::size_t length = std::min(from.size(), size - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

std::int32_t attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, index), "cudaDeviceGetAttribute");
  return value;
}

/// Given in kHz; newer drivers may not tell.
double clock_hz(cudaDeviceAttr which, int index) {
  int khz = 0;
  if (cudaDeviceGetAttribute(&khz, which, index) != cudaSuccess) cudaGetLastError();
  return 1e3 * khz;
}

/// As NVML writes it. The runtime gives a MIG slice's own 16 bytes, and tells that it is one only
/// by its name, "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
std::string uuid_of(const cudaDeviceProp& properties) {
  std::string text = std::strstr(properties.name, " MIG ") != nullptr ? "MIG-" : "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(properties.uuid.bytes[i]));
    text += byte;
  }
  return text;
}

}  // namespace

std::int32_t count_devices() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count == 0) check(cudaErrorNoDevice, "cudaGetDeviceCount");
  return count;
}

DeviceFacts describe_device(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  char pci[32] = {};
  check(cudaDeviceGetPCIBusId(pci, sizeof pci, index), "cudaDeviceGetPCIBusId");
  std::transform(std::begin(pci), std::end(pci), std::begin(pci),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });

  DeviceFacts facts{};
  copy_text(facts.name, properties.name);
  copy_text(facts.uuid, uuid_of(properties));
  copy_text(facts.pci, pci);
  facts.capability_major = attribute(cudaDevAttrComputeCapabilityMajor, index);
  facts.capability_minor = attribute(cudaDevAttrComputeCapabilityMinor, index);
  facts.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  facts.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, index);
  facts.l2_bytes = attribute(cudaDevAttrL2CacheSize, index);
  facts.bus_width_bits = attribute(cudaDevAttrGlobalMemoryBusWidth, index);
  facts.clock_hz = clock_hz(cudaDevAttrClockRate, index);
  facts.memory_clock_hz = clock_hz(cudaDevAttrMemoryClockRate, index);
  facts.ecc = attribute(cudaDevAttrEccEnabled, index);
  facts.integrated = attribute(cudaDevAttrIntegrated, index);
  return facts;
}

Versions versions() {
  Versions found{};
  if (cudaRuntimeGetVersion(&found.runtime) != cudaSuccess) found.runtime = 0;
  if (cudaDriverGetVersion(&found.driver) != cudaSuccess) found.driver = 0;
  found.cudnn = static_cast<std::int32_t>(cudnnGetVersion());
  found.cudnn_headers = CUDNN_VERSION;
  // Part of what is recorded with every row, wherever it comes to be used. Opening it takes 350 ms,
  // which nodes without a driver are to be spared: they ask for the other versions only.
  if (found.driver > 0) {
    try {
      found.cublas_lt = static_cast<std::int32_t>(cublas_lt().version());
    } catch (const Failure&) {
      // Who multiplies will be told.
    }
  }
  if (ncclGetVersion(&found.nccl) != ncclSuccess) found.nccl = 0;
  found.lowest_capability = lowest_capability();
  cudaGetLastError();
  return found;
}

}  // namespace forecost::cuda
