#include "data/h5/device_table.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/card.hpp"

namespace forecost {
namespace {

Device probed_card(const std::string& uuid) {
  Device device = card(uuid);
  device.set(Attribute::probed_allreduce_bytes_per_s, 0.1e9);
  return device;
}

/// The table of `devices`, written, changed and read from its bytes.
std::vector<Device> reread(const std::vector<Device>& devices) {
  h5::File file = h5::File::create("t");
  h5::Group group = file.create_group("devices");
  write_devices(group, devices);
  return read_devices(h5::File::of_bytes(file.bytes(), "t").group("devices"));
}

TEST(DeviceTable, HoldsEverything) {
  std::vector<Device> devices{probed_card("u1"), probed_card("u2"), Device{}, probed_card("u3")};
  devices[1].set_bandwidth_curve({{65536, 3e11}, {1e6, 1e11}, {1e9, 2e10}});
  devices[3].set_bandwidth_curve({{131072, 2e11}});
  const auto again = reread(devices);
  ASSERT_EQ(again.size(), devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    EXPECT_EQ(again[i], devices[i]);
    EXPECT_EQ(device_toml(again[i]), device_toml(devices[i]));
    EXPECT_EQ(again[i].uuid, devices[i].uuid);
    EXPECT_EQ(again[i].host, devices[i].host);
    EXPECT_EQ(again[i].id(), devices[i].id());
    for (std::size_t a = 0; a < attribute_count; ++a) {
      const auto attribute = static_cast<Attribute>(a);
      EXPECT_EQ(again[i].has(attribute), devices[i].has(attribute));
      if (devices[i].has(attribute)) {
        EXPECT_EQ(again[i][attribute], devices[i][attribute]);
      }
    }
  }
  EXPECT_TRUE(reread({}).empty());
}

TEST(DeviceTable, UnitsAndIdsAreForOtherReaders) {
  h5::File file = h5::File::create("t");
  h5::Group group = file.create_group("devices");
  write_devices(group, std::vector{probed_card("u1")});
  EXPECT_EQ(group.read_strings("id"), std::vector<std::string>{probed_card("u1").id()});
  for (const AttributeInfo& info : attribute_table()) {
    EXPECT_EQ(group.dataset(std::string(info.name)).string_attribute("units"), info.units);
  }
}

TEST(DeviceTable, AColumnThatIsYoungerThanTheFileIsUnknown) {
  h5::File file = h5::File::create("t");
  h5::Group group = file.create_group("devices");
  group.write_strings("device_class", std::vector<std::string>{"card", "cart"});
  group.write("clock_hz", std::vector<double>{1e9, std::nan("")});
  const auto devices = read_devices(group);
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[1].device_class, "cart");
  EXPECT_EQ(devices[1].uuid, "");
  EXPECT_EQ(devices[0][Attribute::clock_hz], 1e9);
  EXPECT_FALSE(devices[1].has(Attribute::clock_hz));
  EXPECT_FALSE(devices[0].has(Attribute::memory_bytes));
}

TEST(DeviceTable, WhatDoesNotFitIsRefusedByItsPlace) {
  const auto refusal = [](auto change) {
    h5::File file = h5::File::create("table.h5");
    h5::Group group = file.create_group("devices");
    change(group);
    try {
      read_devices(group);
    } catch (const DataError& error) {
      return std::string(error.what());
    } catch (const EnvironmentError& error) {  // of a file in the making
      return std::string(error.what());
    }
    return std::string("none");
  };
  const std::vector<std::string> one{"card"}, two{"a", "b"};
  const auto refused = [&](const char* part, auto change) {
    const std::string told = refusal([&](h5::Group& group) {
      group.write_strings("device_class", one);
      change(group);
    });
    EXPECT_NE(told.find(part), std::string::npos) << told;
  };
  EXPECT_NE(refusal([](h5::Group&) {}).find("table.h5: /devices/device_class"), std::string::npos);
  refused("table.h5: /devices/name: 2 values, but the table has 1 rows",
          [&](h5::Group& group) { group.write_strings("name", two); });
  refused("/devices/clock_hz: 0 values",
          [](h5::Group& group) { group.write("clock_hz", std::vector<double>{}); });
  refused("table.h5: /devices: row 0: clock_hz = 1410",  // megahertz
          [](h5::Group& group) { group.write("clock_hz", std::vector<double>{1410}); });
  const auto curve = [](std::uint64_t begin, std::vector<double> bytes, std::vector<double> rates) {
    return [=](h5::Group& group) {
      group.write("curve_begin", std::vector<std::uint64_t>{begin});
      group.write("curve_bytes", bytes);
      group.write("curve_bytes_per_s", rates);
    };
  };
  refused("none", curve(0, {1e6}, {1e11}));
  refused("/devices/curve_begin: row 0: points 2 to 1 of 1", curve(2, {1e6}, {1e11}));
  refused("/devices/curve_bytes_per_s: 0 values, but the table has 1 rows", curve(0, {1e6}, {}));
  refused("table.h5: /devices: row 0: probed_bandwidth_curve has 100 B/s", curve(0, {1e6}, {100}));
}

}  // namespace
}  // namespace forecost
