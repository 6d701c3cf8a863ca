#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace forecost::standin {

/// How long things take on a device, in virtual time.
struct Model {
  double f32_flops = 60e12, tf32_flops = 400e12, f16_flops = 800e12;  ///< bf16 as f16
  double bandwidth = 3e12, host_bandwidth = 25e9;                     ///< bytes/s
  double kernel_s = 2e-6;  ///< of a kernel that does nothing
  double launch_s = 3e-6;  ///< of the host, for each call that puts something on a stream
  double noise = 0;        ///< a duration varies by up to this part of it
  /// Of a collective: between GPUs of a node, and where its ranks are on several.
  double link_latency = 8e-6, link_bandwidth = 300e9;  ///< seconds, bytes/s
  double node_link_latency = 20e-6, node_link_bandwidth = 25e9;
};

struct Device {
  std::string name, uuid, pci;
  std::string parent;  ///< UUID of the GPU of a MIG slice; empty otherwise
  std::int64_t memory_bytes = std::int64_t{4} << 30;
  int multiprocessors = 100, capability_major = 9, capability_minor = 0;
  std::int64_t l2_bytes = 32 << 20;
  int bus_width_bits = 5120;
  double clock_hz = 1.7e9, memory_clock_hz = 2.6e9;
  bool ecc = true;
  double power_limit_w = 700;
  std::vector<unsigned> foreign_processes;  ///< their ids
  Model model;
};

/// What goes wrong, and when. Counts begin at 1, 0 is never.
struct Faults {
  /// Call or kernel, or a part of its name: whatever is counted, or bounded, below begins with the
  /// first of these. Of a sweep, it leaves the probe of the device in peace.
  std::string after;
  std::int64_t allocation = 0;           ///< this one of device memory is refused
  std::int64_t allocation_above = 0;     ///< as is one of more bytes
  std::int64_t sticky_launch = 0;        ///< from this launch on every call fails
  std::vector<std::string> unsupported;  ///< operations: convolution, pooling, gemm, ...
  std::vector<std::string> nan;          ///< calls or kernels, or parts of their names
  std::string once;  ///< file: of all processes that name it, only one has the counted faults
  /// Throttled are this many samples (times asked for between two events), after so many.
  std::int64_t throttled_samples = 0, throttled_after = 0;
  double slowdown = 2;
  // Of NCCL, counted by communicator; -1 is never.
  int nccl_init_silent_rank = -1;      ///< never arrives in a communicator
  int nccl_silent_rank = -1;           ///< takes part no longer
  std::int64_t nccl_silent_after = 0;  ///< so many collectives
  /// After so many the next never ends, and ncclCommGetAsyncError tells of a remote error.
  std::int64_t nccl_async_error = -1;
  std::string throttle_reason = "thermal";  ///< or power
};

struct Config {
  std::vector<Device> devices;
  int driver_version = 13000;  ///< 0: no driver
  bool nvml = true;
  Faults faults;
  double compute_limit_flops = 3e7;  ///< a call of more takes its time, but leaves zeros
  std::int64_t compute_limit_bytes = 16 << 20;
  std::string report;  ///< REPORT-<process id>.txt is written
  std::string node;    ///< what the ranks of NCCL take for this machine's name
  double hang_s = 60;  ///< a wait (real time) that lasts longer ends the process, with hang_status
};
constexpr int hang_status = 86;

/// Of the JSON file that FORECOST_STANDIN names; without one, one device and no faults. Ends the
/// process with a line where the file cannot be read: nobody could handle it.
Config read_config();

/// Indices of the devices that CUDA_VISIBLE_DEVICES leaves, by index or UUID (or its beginning).
std::vector<int> visible_devices(const Config& config, const char* variable);

}  // namespace forecost::standin
