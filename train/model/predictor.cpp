#include "train/model/predictor.hpp"

#include <cmath>

namespace forecost {

double Prediction::low_s() const {
  return seconds * std::exp(-std::hypot(layer_log_halfwidth, device_log_halfwidth));
}

double Prediction::high_s() const {
  return seconds * std::exp(std::hypot(layer_log_halfwidth, device_log_halfwidth));
}

Device resolve_device(const Predictor& predictor, std::string_view name_or_file) {
  std::vector<std::string> known;
  for (const Device& device : predictor.devices()) {
    if (device.device_class == name_or_file) return device;
    known.push_back(device.device_class);
  }
  const bool is_file = name_or_file.ends_with(".toml") || name_or_file.find('/') != name_or_file.npos;
  for (std::string& name : shipped_devices()) {
    if (is_file || name == name_or_file) return find_device(name_or_file);
    known.push_back(std::move(name));
  }
  if (is_file) return find_device(name_or_file);
  throw UsageError(unknown_name("device", name_or_file, known) + "; or give a device TOML file");
}

}  // namespace forecost
