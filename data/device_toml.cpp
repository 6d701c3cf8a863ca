#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/file.hpp"
#include "data/device.hpp"
#include "data/text.hpp"
#include "data/toml.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

/// The texts of a device file and where they go.
constexpr std::pair<std::string_view, std::string Device::*> texts[] = {
    {"name", &Device::name},          {"vendor", &Device::vendor}, {"kind", &Device::kind},
    {"class", &Device::device_class}, {"uuid", &Device::uuid},     {"host", &Device::host},
};

BandwidthCurve curve_of(const TomlValue& value) {
  BandwidthCurve curve;
  for (const TomlValue& point : value.as_array()) {
    const auto pair = point.as_array();
    if (pair.size() != 2) {
      point.fail(fmt::format("expected [bytes, bytes per second], found {} values", pair.size()));
    }
    if (!curve.emplace(pair[0].as_number(), pair[1].as_number()).second) {
      point.fail(fmt::format("{:g} bytes are there twice", pair[0].as_number()));
    }
  }
  return curve;
}

}  // namespace

Device load_device(const fs::path& file) {
  const TomlValue root = load_toml(file);
  std::vector<std::string> known;
  for (const auto& [key, member] : texts) known.emplace_back(key);
  for (const AttributeInfo& info : attribute_table()) known.emplace_back(info.name);
  known.emplace_back(bandwidth_curve_name);
  known.emplace_back("cuda_names");
  root.only(known);

  Device device;
  for (const auto& [key, member] : texts) {
    device.*member = root.text(key, "");
    if (is_line(device.*member)) continue;
    root.at(key).fail(
        fmt::format("expected a text of one line, found '{}'", shown(device.*member)));
  }
  device.name = root.at("name").as_text();
  device.device_class = root.at("class").as_text();
  if (device.device_class.empty()) root.at("class").fail("expected a name, found \"\"");
  if (device.kind != "cpu" && device.kind != "gpu") {
    root.at("kind").fail("expected \"cpu\" or \"gpu\"");
  }
  if (const TomlValue* names = root.find("cuda_names")) {
    for (const TomlValue& name : names->as_array()) {
      if (name.as_text().empty()) name.fail("expected what CUDA calls the device, found \"\"");
      device.cuda_names.push_back(name.as_text());
    }
  }
  const auto table = attribute_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const TomlValue* value = root.find(table[i].name);
    if (value == nullptr) continue;
    const double number = value->as_number();
    try {
      device.set(static_cast<Attribute>(i), number);
    } catch (const UsageError& error) {
      value->fail(error.what());
    }
  }
  if (const TomlValue* curve = root.find(bandwidth_curve_name)) {
    BandwidthCurve points = curve_of(*curve);
    try {
      device.set_bandwidth_curve(std::move(points));
    } catch (const UsageError& error) {
      curve->fail(error.what());
    }
  }
  return device;
}

std::string device_toml(const Device& device) {
  const auto quoted = [](const std::string& text) {
    std::string out;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        out += '\\';
        out += c;
      } else if (byte < 0x20 || byte == 0x7F) {
        out += fmt::format("\\u{:04X}", byte);
      } else {
        out += c;
      }
    }
    return '"' + out + '"';
  };
  std::string text;
  for (const auto& [key, member] : texts) {
    if (!(device.*member).empty()) text += fmt::format("{} = {}\n", key, quoted(device.*member));
  }
  if (!device.cuda_names.empty()) {
    std::vector<std::string> names;
    for (const std::string& name : device.cuda_names) names.push_back(quoted(name));
    text += fmt::format("cuda_names = [{}]\n", fmt::join(names, ", "));
  }
  const auto table = attribute_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const double value = device[static_cast<Attribute>(i)];
    if (!std::isnan(value)) text += fmt::format("{} = {}\n", table[i].name, value);
  }
  if (!device.bandwidth_curve().empty()) {
    text += fmt::format("{} = [  # [bytes, bytes per second]\n", bandwidth_curve_name);
    for (const auto& [bytes, bytes_per_s] : device.bandwidth_curve()) {
      text += fmt::format("  [{}, {}],\n", bytes, bytes_per_s);
    }
    text += "]\n";
  }
  return text;
}

std::vector<std::string> shipped_devices() { return shipped_names("devices"); }

std::optional<std::string> shipped_gpu(std::string_view cuda_name) {
  std::optional<std::string> found;
  for (const std::string& shipped : shipped_devices()) {
    const auto names = find_device(shipped).cuda_names;
    if (std::find(names.begin(), names.end(), cuda_name) == names.end()) continue;
    if (found) {
      throw UsageError(
          fmt::format("{} and {} both have \"{}\" among their cuda_names: a GPU is of one class",
                      shipped_or_file("devices", "device", *found).string(),
                      shipped_or_file("devices", "device", shipped).string(), cuda_name));
    }
    found = shipped;
  }
  return found;
}

Device find_device(std::string_view name) {
  return load_device(shipped_or_file("devices", "device", name));
}

}  // namespace forecost
