#include "train/model/predictor.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace forecost {

double Prediction::low_s() const {
  return seconds * std::exp(-std::hypot(layer_log_halfwidth, device_log_halfwidth));
}

double Prediction::high_s() const {
  return seconds * std::exp(std::hypot(layer_log_halfwidth, device_log_halfwidth));
}

namespace {

/// Without these a prediction would rest on guesses that nobody sees.
Device checked(Device device, std::string_view name) {
  const auto missing = [&](const char* what, const char* keys) {
    return UsageError(fmt::format("device {}: its {} is unknown: give {}", name, what, keys));
  };
  if (!(device.peak_flops(DType::f32) > 0)) {
    throw missing("peak rate", "peak_f32_flops or probed_f32_flops");
  }
  if (!(device.bandwidth_bytes_per_s() > 0)) {
    throw missing("memory bandwidth", "bandwidth_bytes_per_s or probed_bandwidth_bytes_per_s");
  }
  return device;
}

}  // namespace

Device resolve_device(const Predictor& predictor, std::string_view name_or_file) {
  std::vector<std::string> known;
  for (const Device& device : predictor.devices()) {
    if (device.device_class == name_or_file) return checked(device, name_or_file);
    known.push_back(device.device_class);
  }
  const bool is_file =
      name_or_file.ends_with(".toml") || name_or_file.find('/') != name_or_file.npos;
  for (std::string& name : shipped_devices()) {
    if (is_file || name == name_or_file) return checked(find_device(name_or_file), name_or_file);
    if (std::find(known.begin(), known.end(), name) == known.end())
      known.push_back(std::move(name));
  }
  if (is_file) return checked(find_device(name_or_file), name_or_file);
  throw UsageError(unknown_name("device", name_or_file, known) + "; or give a device TOML file");
}

}  // namespace forecost
