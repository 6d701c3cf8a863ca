#include <algorithm>

#include <fmt/format.h>

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

}  // namespace

Device load_device(const fs::path& file) {
  const TomlValue root = load_toml(file);
  std::vector<std::string> known;
  for (const auto& [key, member] : texts) known.emplace_back(key);
  for (const AttributeInfo& info : attribute_table()) known.emplace_back(info.name);
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
  const auto table = attribute_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const double value = device[static_cast<Attribute>(i)];
    if (!std::isnan(value)) text += fmt::format("{} = {}\n", table[i].name, value);
  }
  return text;
}

std::vector<std::string> shipped_devices() { return shipped_names("devices"); }

Device find_device(std::string_view name) {
  return load_device(shipped_or_file("devices", "device", name));
}

}  // namespace forecost
