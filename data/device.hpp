#pragma once

#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocabulary.hpp"

namespace forecost {

/// The numeric attributes of a device. A probed attribute is what a probe reached on the device
/// itself; it is used wherever it exists, since spec tables disagree with each other.
enum class Attribute : std::uint8_t {
  memory_bytes,
  cores,
  clock_hz,
  memory_clock_hz,
  l2_bytes,
  llc_bytes,
  peak_f32_flops,
  peak_tf32_flops,
  peak_f16_flops,
  peak_bf16_flops,
  peak_f64_flops,
  peak_int8_flops,
  peak_fp8_flops,
  bandwidth_bytes_per_s,
  interconnect_bytes_per_s,
  host_link_bytes_per_s,
  launch_latency_s,
  power_cap_w,
  compute_capability,
  probed_f32_flops,
  probed_tf32_flops,
  probed_f16_flops,
  probed_bf16_flops,
  probed_f64_flops,
  probed_int8_flops,
  probed_fp8_flops,
  probed_bandwidth_bytes_per_s,
  probed_cache_bandwidth_bytes_per_s,
  probed_cache_bytes,
  probed_launch_latency_s,
  probed_host_link_bytes_per_s,
  probed_allreduce_bytes_per_s
};

struct AttributeInfo {
  std::string_view name;   ///< TOML key and corpus column; the unit is part of it
  std::string_view units;  ///< for the HDF5 attribute: "Hz", "B", "FLOP/s", "B/s", "s", "W", "1"
  double min, max;  ///< plausible range, so that a clock of 1410 is refused where Hz is meant
};
inline constexpr std::size_t attribute_count = 32;
/// In the order of the enumeration.
std::span<const AttributeInfo, attribute_count> attribute_table();

/// Bytes per second of reading a working set again and again, by its size in bytes. As JSON it is
/// [[bytes, bytes per second], ...].
using BandwidthCurve = std::map<double, double>;
/// TOML key and name in journals; corpora have it as columns (data/h5/device_table.hpp).
inline constexpr std::string_view bandwidth_curve_name = "probed_bandwidth_curve";

/// One GPU (or MIG slice, or one die of a two-die card), or the set of CPU cores a rank is bound
/// to.
class Device {
 public:
  std::string name;          ///< model, for people: "AMD EPYC"
  std::string vendor;        ///< "AMD", "NVIDIA", ...
  std::string kind;          ///< "cpu" or "gpu"
  std::string device_class;  ///< unit of scheduling and modelling, as users type it: "amd-epyc-2c"
  std::string uuid;          ///< this very device; empty in catalogue files
  std::string host;          ///< where it is; empty in catalogue files
  /// Of catalogue files alone: what CUDA calls the card, "NVIDIA H100 80GB HBM3".
  std::vector<std::string> cuda_names;

  Device() { attributes_.fill(std::numeric_limits<double>::quiet_NaN()); }

  /// NaN if unknown.
  double operator[](Attribute a) const { return attributes_[static_cast<std::size_t>(a)]; }
  bool has(Attribute a) const { return !std::isnan((*this)[a]); }
  /// NaN forgets it. Throws UsageError outside the plausible range.
  void set(Attribute a, double value);

  /// What a probe found; empty if unknown.
  const BandwidthCurve& bandwidth_curve() const { return bandwidth_curve_; }
  /// Throws UsageError outside the plausible range of sizes (1 kB to 1 TB) and bandwidths.
  void set_bandwidth_curve(BandwidthCurve curve);

  /// Probed if known, else nominal, else NaN. The rate of a link is of one direction.
  double peak_flops(DType dtype) const;
  double bandwidth_bytes_per_s(Traffic traffic = Traffic::memory) const;

  /// Of identity and all attributes; unknown ones are equal.
  bool operator==(const Device& other) const;

  /// Identifies the device in a corpus: of uuid and class, so that a new probe does not make a new
  /// device.
  std::string id() const;

 private:
  std::array<double, attribute_count> attributes_;
  BandwidthCurve bandwidth_curve_;
};

/// A class name as users type it: lower case, letters, digits and '-' ("AMD EPYC", 2 ->
/// "amd-epyc-2c").
std::string cpu_class(std::string_view model, int cores);

/// Device TOML. Errors name the file and line; unknown keys are refused with the known ones.
Device load_device(const std::filesystem::path& file);
std::string device_toml(const Device& device);
/// NAME of a shipped device (configs/devices/NAME.toml) or a path of a TOML file.
Device find_device(std::string_view name_or_file);
/// Names of the shipped devices, sorted.
std::vector<std::string> shipped_devices();
/// The shipped device that CUDA calls so, by its name; nullopt if there is none. Throws UsageError
/// where two files have it.
std::optional<std::string> shipped_gpu(std::string_view cuda_name);

}  // namespace forecost
