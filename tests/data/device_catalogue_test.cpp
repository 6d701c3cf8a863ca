#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/file.hpp"
#include "data/device.hpp"

namespace forecost {
namespace {

namespace fs = std::filesystem;

/// A shipped device and the comment above it, as one line.
struct Entry {
  std::string file;  ///< without ".toml"
  Device device;
  std::string comment;
};

std::vector<Entry> catalogue() {
  std::vector<Entry> entries;
  for (const std::string& name : shipped_devices()) {
    std::istringstream text(
        read_text(fs::path(FORECOST_SOURCE_DIR) / "configs/devices" / (name + ".toml")));
    Entry entry{name, find_device(name), ""};
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with("# ")) entry.comment += line.substr(2) + ' ';
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// The number that the comment states in front of `unit`; NaN if it states none.
double stated(const std::string& comment, const std::string& unit) {
  std::smatch found;
  return std::regex_search(comment, found, std::regex("([0-9]+)" + unit)) ? std::stod(found[1])
                                                                          : std::nan("");
}

TEST(Catalogue, HoldsTheGpusOfThePublicTimings) {
  std::set<std::string> names;
  for (const Entry& entry : catalogue()) names.insert(entry.file);
  for (const char* name : {"v100",
                           "v100-pcie-32gb",
                           "p100",
                           "gtx-1080-ti",
                           "m60",
                           "k80",
                           "k40",
                           "p4",
                           "t4",
                           "a100-40gb",
                           "a100-pcie-40gb",
                           "a100-pcie-80gb",
                           "a100-80gb",
                           "h100",
                           "h100-pcie",
                           "h200",
                           "l4",
                           "mi100",
                           "mi210",
                           "mi250"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Catalogue, ClassesAreFileNamesAndNamesAreUnique) {
  std::set<std::string> names;
  int cpus = 0;
  for (const auto& [file, device, comment] : catalogue()) {
    EXPECT_EQ(device.device_class, file);
    EXPECT_TRUE(names.insert(device.name).second) << device.name;
    if (device.kind != "cpu") continue;
    ++cpus;  // what a machine with one such socket reports
    EXPECT_EQ(device.device_class,
              cpu_class(device.name, static_cast<int>(device[Attribute::cores])));
  }
  EXPECT_GE(cpus, 4);
  EXPECT_THROW(find_device("no-such-device"), UsageError);
}

TEST(Catalogue, HasWhatModelsNeed) {
  for (const auto& [file, device, comment] : catalogue()) {
    EXPECT_FALSE(device.vendor.empty()) << file;
    EXPECT_TRUE(device.uuid.empty() && device.host.empty()) << file;
    for (const Attribute attribute :
         {Attribute::memory_bytes, Attribute::cores, Attribute::clock_hz,
          Attribute::memory_clock_hz, Attribute::peak_f32_flops, Attribute::peak_f64_flops,
          Attribute::bandwidth_bytes_per_s, Attribute::launch_latency_s, Attribute::power_cap_w}) {
      EXPECT_TRUE(device.has(attribute))
          << file << ": " << attribute_table()[static_cast<std::size_t>(attribute)].name;
    }
    const bool gpu = device.kind == "gpu";
    EXPECT_EQ(device.has(Attribute::l2_bytes), gpu) << file;
    EXPECT_EQ(device.has(Attribute::host_link_bytes_per_s), gpu) << file;
    EXPECT_EQ(device.has(Attribute::llc_bytes), !gpu) << file;
    EXPECT_EQ(device.has(Attribute::compute_capability), device.vendor == "NVIDIA") << file;
  }
}

TEST(Catalogue, CommentsNameSourcesAndEstimates) {
  for (const auto& [file, device, comment] : catalogue()) {
    EXPECT_NE(comment.find("Sources: \""), std::string::npos) << file;
    EXPECT_TRUE(std::regex_search(comment, std::regex("\\((19|20)[0-9]{2}\\)"))) << file;
    EXPECT_NE(comment.find("launch latency is an estimate"), std::string::npos) << file;
  }
}

TEST(Catalogue, OneDieOfATwoDieCard) {
  for (const char* name : {"k80", "m60", "mi250"}) {
    EXPECT_NE(find_device(name).name.find(", one of its two dies"), std::string::npos) << name;
  }
}

/// Every file's comment states its lanes and bus, so that its numbers can be held against each
/// other: a wrong digit in any of them stands out.
TEST(Catalogue, PeaksAndBandwidthFollowFromClocks) {
  for (const auto& [file, device, comment] : catalogue()) {
    const double lanes = stated(comment, " f32 multiply-adds per"),
                 bus = stated(comment, "-bit memory bus");
    ASSERT_GT(lanes, 0) << file;
    ASSERT_GT(bus, 0) << file;
    EXPECT_NEAR(device[Attribute::cores] * lanes * 2 * device[Attribute::clock_hz] /
                    device[Attribute::peak_f32_flops],
                1, 0.03)
        << file;
    EXPECT_NEAR(
        bus / 8 * 2 * device[Attribute::memory_clock_hz] / device[Attribute::bandwidth_bytes_per_s],
        1, 0.03)
        << file;
    const double f16 = device[Attribute::peak_f16_flops], bf16 = device[Attribute::peak_bf16_flops];
    if (device.has(Attribute::peak_tf32_flops)) {
      EXPECT_NEAR(f16 / device[Attribute::peak_tf32_flops], 2, 0.04) << file;
    }
    if (device.vendor == "NVIDIA" && device.has(Attribute::peak_bf16_flops)) {
      EXPECT_EQ(bf16, f16) << file;
      EXPECT_NEAR(device[Attribute::peak_int8_flops] / f16, 2, 0.04) << file;
    }
    EXPECT_LE(device[Attribute::peak_f64_flops], device[Attribute::peak_f32_flops] * 0.51) << file;
  }
}

/// docs/devices.md and configs/devices tell the same.
TEST(Catalogue, DocumentationListsEveryDevice) {
  std::istringstream text(read_text(fs::path(FORECOST_SOURCE_DIR) / "docs/devices.md"));
  const std::regex row("\\| `([a-z0-9-]+)` \\| (.+) \\| ([0-9.]+) \\| ([0-9.]+) \\| ([0-9.]+) \\|");
  std::map<std::string, std::smatch> rows;
  std::vector<std::string> lines;  // what the matches point into
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  for (const std::string& line : lines) {
    std::smatch found;
    if (std::regex_match(line, found, row)) rows[found[1]] = found;
  }
  const auto entries = catalogue();
  EXPECT_EQ(rows.size(), entries.size()) << "a row without a file?";
  for (const auto& [file, device, comment] : entries) {
    ASSERT_TRUE(rows.contains(file)) << "docs/devices.md lacks " << file;
    const std::smatch& cells = rows[file];
    EXPECT_EQ(cells[2], device.name);
    EXPECT_NEAR(std::stod(cells[3]) * 1e9 / device[Attribute::memory_bytes], 1, 0.005) << file;
    EXPECT_NEAR(std::stod(cells[4]) * 1e9 / device[Attribute::bandwidth_bytes_per_s], 1, 0.005)
        << file;
    EXPECT_NEAR(std::stod(cells[5]) * 1e12 / device[Attribute::peak_f32_flops], 1, 0.005) << file;
  }
}

/// What each number of the catalogue becomes when its unit is mistaken is refused.
TEST(Catalogue, NoNumberPassesInAnotherUnit) {
  const std::map<std::string_view, std::vector<double>> factors{
      {"B", {1e-9, 1e-6, std::ldexp(1, -30), std::ldexp(1, -20)}},
      {"Hz", {1e-9, 1e-6, 1e-3}},
      {"FLOP/s", {1e-12, 1e-9}},
      {"B/s", {1e-12, 1e-9, 1e-6}},
      {"s", {1e9, 1e6, 1e3}},
      {"W", {1e3, 1e-3}},
      {"1", {}}};
  for (const auto& [file, device, comment] : catalogue()) {
    for (std::size_t i = 0; i < attribute_count; ++i) {
      const auto attribute = static_cast<Attribute>(i);
      if (!device.has(attribute)) continue;
      const AttributeInfo& info = attribute_table()[i];
      std::vector<double> wrong = factors.at(info.units);
      if (attribute == Attribute::memory_bytes) wrong.push_back(std::ldexp(1, -10));
      if (attribute == Attribute::compute_capability) wrong.push_back(10);
      if (attribute == Attribute::cores && device.kind == "gpu") {  // lanes, for multiprocessors
        wrong.push_back(stated(comment, " f32 multiply-adds per"));
      }
      for (const double factor : wrong) {
        Device changed = device;
        EXPECT_THROW(changed.set(attribute, device[attribute] * factor), UsageError)
            << file << ": " << info.name << " = " << device[attribute] * factor;
      }
    }
  }
}

}  // namespace
}  // namespace forecost
