#include <fstream>

#include <unistd.h>

#include <gtest/gtest.h>

#include "core/file.hpp"
#include "data/device.hpp"

namespace forecost {
namespace {

namespace fs = std::filesystem;

class DeviceToml : public testing::Test {
 protected:
  void SetUp() override {
    file = fs::temp_directory_path() / ("forecost-device-" + std::to_string(::getpid()) + ".toml");
  }
  void TearDown() override { fs::remove(file); }
  std::string error_of(const std::string& text) {
    replace_text(file, text);
    try {
      load_device(file);
    } catch (const UsageError& error) {
      return std::string(error.what()).substr(file.string().size());
    }
    return "nothing thrown";
  }
  fs::path file;
};

TEST_F(DeviceToml, ReadsWhatItWrites) {
  Device device;
  device.name = "Card \"A\" \\ B\n";
  device.kind = "gpu";
  device.device_class = "card-a";
  device.uuid = "GPU-1";
  device.set(Attribute::clock_hz, 1.41e9);
  device.set(Attribute::probed_f32_flops, 1.2345678901234567e13);
  replace_text(file, device_toml(device));
  const Device again = load_device(file);
  EXPECT_EQ(again.name, device.name);
  EXPECT_EQ(again.uuid, "GPU-1");
  EXPECT_EQ(again[Attribute::probed_f32_flops], 1.2345678901234567e13);
  EXPECT_FALSE(again.has(Attribute::memory_bytes));
  EXPECT_EQ(device_toml(again), device_toml(device));
}

TEST_F(DeviceToml, ErrorsNameTheLine) {
  const std::string head = "name = \"A\"\nkind = \"gpu\"\nclass = \"a\"\n";
  EXPECT_EQ(error_of(head + "clock_hz = 1410\n"),
            ":4: 'clock_hz': clock_hz = 1410: expected 1e+08 to 1e+10 Hz");
  EXPECT_NE(error_of(head + "clok_hz = 1e9\n").find(":4: unknown key 'clok_hz'"),
            std::string::npos);
  EXPECT_NE(error_of("name = \"A\"\nkind = \"tpu\"\nclass = \"a\"\n").find(":2: 'kind'"),
            std::string::npos);
}

TEST(ShippedDevices, AllLoadAndAreNamedAfterTheirClass) {
  ASSERT_FALSE(shipped_devices().empty());
  for (const auto& name : shipped_devices()) {
    EXPECT_EQ(find_device(name).device_class, name);
  }
  EXPECT_THROW(find_device("no-such-device"), UsageError);
}

}  // namespace
}  // namespace forecost
