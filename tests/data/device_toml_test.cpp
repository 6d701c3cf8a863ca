#include <fstream>
#include <map>
#include <sstream>

#include <unistd.h>

#include <fmt/format.h>
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
    std::ofstream(file) << text;  // many times: without a sync each
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
  device.name = "Card \"A\" \\ B";
  device.kind = "gpu";
  device.device_class = "card-a";
  device.uuid = "GPU-1";
  device.cuda_names = {"Card A", "Card \"A\""};
  device.set(Attribute::clock_hz, 1.41e9);
  device.set(Attribute::probed_f32_flops, 1.2345678901234567e13);
  device.set_bandwidth_curve({{65536, 3.1234567890123457e11}, {1e9, 2e10}});
  replace_text(file, device_toml(device));
  const Device again = load_device(file);
  EXPECT_EQ(again, device);
  EXPECT_EQ(again.name, device.name);
  EXPECT_EQ(again.uuid, "GPU-1");
  EXPECT_EQ(again.cuda_names, device.cuda_names);
  EXPECT_EQ(again[Attribute::probed_f32_flops], 1.2345678901234567e13);
  EXPECT_FALSE(again.has(Attribute::memory_bytes));
  EXPECT_EQ(device_toml(again), device_toml(device));

  device.name += "\n";
  replace_text(file, device_toml(device));
  EXPECT_THROW(load_device(file), UsageError);  // tables and messages have one line of it
}

TEST_F(DeviceToml, ErrorsNameTheLine) {
  const std::string head = "name = \"A\"\nkind = \"gpu\"\nclass = \"a\"\n";
  EXPECT_EQ(error_of(head + "clock_hz = 1410\n"),
            ":4: 'clock_hz': clock_hz = 1410: expected 1e+08 to 1e+10 Hz");
  EXPECT_EQ(error_of(head + "cuda_names = [\"A\", \"\"]\n"),
            ":4: 'cuda_names': expected what CUDA calls the device, found \"\"");
  EXPECT_NE(error_of(head + "clok_hz = 1e9\n").find(":4: unknown key 'clok_hz'"),
            std::string::npos);
  const auto curve_error = [&](const std::string& points) {
    return error_of(head + "probed_bandwidth_curve = " + points + "\n");
  };
  EXPECT_EQ(curve_error("[[65536, 3e11], [1e6]]"),
            ":4: 'probed_bandwidth_curve': expected [bytes, bytes per second], found 1 values");
  EXPECT_EQ(curve_error("[[65536, 3e11], [65536, 2e11]]"),
            ":4: 'probed_bandwidth_curve': 65536 bytes are there twice");
  EXPECT_TRUE(curve_error("[[65536, 300]]")
                  .starts_with(":4: 'probed_bandwidth_curve': probed_bandwidth_curve has 300 B/s"))
      << curve_error("[[65536, 300]]");
  EXPECT_TRUE(curve_error("3e11").starts_with(":4: 'probed_bandwidth_curve': expected"))
      << curve_error("3e11");
  EXPECT_NE(error_of("name = \"A\"\nkind = \"tpu\"\nclass = \"a\"\n").find(":2: 'kind'"),
            std::string::npos);
}

/// What people copy from nvidia-smi, lscpu, deviceQuery, data sheets and profilers.
TEST_F(DeviceToml, RefusesEveryAttributeInAnotherUnit) {
  const std::string tflops_gflops = "19.5 19500";
  const std::string gb_mb_per_s = "1555 1.555 1555000", link_gb_mb_per_s = "32 32000";
  const std::map<std::string_view, std::string> mistakes{
      {"memory_bytes", "40 40960 41943040"},  // GB, MiB, KiB
      {"cores", "6912"},                      // lanes
      {"clock_hz", "1.41 1410 1410000"},      // GHz, MHz, kHz
      {"memory_clock_hz", "1.215 1215 1215000"},
      {"l2_bytes", "40 40960"},
      {"llc_bytes", "27.5 28160"},
      {"peak_f32_flops", tflops_gflops},
      {"peak_tf32_flops", tflops_gflops},
      {"peak_f16_flops", tflops_gflops},
      {"peak_bf16_flops", tflops_gflops},
      {"peak_f64_flops", tflops_gflops},
      {"peak_int8_flops", tflops_gflops},
      {"peak_fp8_flops", tflops_gflops},
      {"bandwidth_bytes_per_s", gb_mb_per_s},
      {"interconnect_bytes_per_s", link_gb_mb_per_s},
      {"host_link_bytes_per_s", link_gb_mb_per_s},
      {"launch_latency_s", "4 4000 0.004"},  // us, ns, ms
      {"power_cap_w", "0.4 400000"},         // kW, mW
      {"compute_capability", "80"},
      {"probed_f32_flops", tflops_gflops},
      {"probed_tf32_flops", tflops_gflops},
      {"probed_f16_flops", tflops_gflops},
      {"probed_bf16_flops", tflops_gflops},
      {"probed_f64_flops", tflops_gflops},
      {"probed_int8_flops", tflops_gflops},
      {"probed_fp8_flops", tflops_gflops},
      {"probed_bandwidth_bytes_per_s", gb_mb_per_s},
      {"probed_cache_bandwidth_bytes_per_s", gb_mb_per_s},
      {"probed_cache_bytes", "32 256"},
      {"probed_launch_latency_s", "4 4000"},
      {"probed_host_link_bytes_per_s", link_gb_mb_per_s},
      {"probed_allreduce_bytes_per_s", link_gb_mb_per_s},
  };
  EXPECT_EQ(mistakes.size(), attribute_count);
  for (const AttributeInfo& info : attribute_table()) {
    ASSERT_TRUE(mistakes.contains(info.name)) << info.name;
    std::istringstream values(mistakes.at(info.name) + " 0 -1");
    for (std::string value; values >> value;) {
      const std::string error = error_of(
          fmt::format("name = \"A\"\nkind = \"gpu\"\nclass = \"a\"\n{} = {}\n", info.name, value));
      EXPECT_TRUE(error.starts_with(fmt::format(":4: '{}': ", info.name)))
          << info.name << " = " << value << ": " << error;
      EXPECT_TRUE(
          error.ends_with(fmt::format("expected {:g} to {:g} {}", info.min, info.max, info.units)))
          << error;
    }
  }
}

}  // namespace
}  // namespace forecost
