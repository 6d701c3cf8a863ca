#include "data/h5/device_table.hpp"

#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace forecost {

namespace {

struct TextColumn {
  const char* name;
  std::string Device::*member;
};
constexpr TextColumn text_columns[] = {
    {"name", &Device::name}, {"vendor", &Device::vendor},
    {"kind", &Device::kind}, {"device_class", &Device::device_class},
    {"uuid", &Device::uuid}, {"host", &Device::host},
};

template <class T>
std::vector<T> sized(std::vector<T> values, std::size_t rows, const h5::Group& group,
                     const std::string& column) {
  if (values.size() == rows) return values;
  throw DataError(fmt::format("{}/{}: {} values, but the table has {} rows", group.where(), column,
                              values.size(), rows));
}

constexpr const char *curve_dimension = "curve_point", *curve_begin = "curve_begin",
                     *curve_bytes = "curve_bytes", *curve_rates = "curve_bytes_per_s";

void write_curves(h5::Group& group, std::span<const Device> devices, const char* dimension) {
  std::vector<std::uint64_t> begins;
  std::vector<double> bytes, rates;
  for (const Device& device : devices) {
    begins.push_back(bytes.size());
    for (const auto& [size, rate] : device.bandwidth_curve()) {
      bytes.push_back(size);
      rates.push_back(rate);
    }
  }
  group.write(curve_begin, begins, dimension);
  group.create_dimension(curve_dimension, bytes.size());
  group.write(curve_bytes, bytes, curve_dimension).set_attribute("units", "B");
  group.write(curve_rates, rates, curve_dimension).set_attribute("units", "B/s");
}

void read_curves(const h5::Group& group, std::vector<Device>& devices) {
  if (!group.has_dataset(curve_begin)) return;
  auto begins = sized(group.read<std::uint64_t>(curve_begin), devices.size(), group, curve_begin);
  const auto bytes = group.read<double>(curve_bytes);
  const auto rates = sized(group.read<double>(curve_rates), bytes.size(), group, curve_rates);
  begins.push_back(bytes.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (begins[i] > begins[i + 1] || begins[i + 1] > bytes.size()) {
      throw DataError(fmt::format("{}/{}: row {}: points {} to {} of {}", group.where(),
                                  curve_begin, i, begins[i], begins[i + 1], bytes.size()));
    }
    BandwidthCurve curve;
    for (auto point = begins[i]; point < begins[i + 1]; ++point) {
      curve.emplace(bytes[point], rates[point]);
    }
    try {
      devices[i].set_bandwidth_curve(std::move(curve));
    } catch (const UsageError& error) {
      throw DataError(fmt::format("{}: row {}: {}", group.where(), i, error.what()));
    }
  }
}

}  // namespace

void write_devices(h5::Group& group, std::span<const Device> devices) {
  const char* dimension = "row";
  group.create_dimension(dimension, devices.size());
  const auto column_of = [&](auto get) {
    std::vector<decltype(get(devices[0]))> values;
    for (const Device& device : devices) values.push_back(get(device));
    return values;
  };
  group.write_strings("id", column_of([](const Device& d) { return d.id(); }), dimension);
  for (const TextColumn& column : text_columns) {
    group.write_strings(column.name,
                        column_of([&](const Device& d) { return std::string(d.*column.member); }),
                        dimension);
  }
  const auto table = attribute_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto attribute = static_cast<Attribute>(i);
    group
        .write(std::string(table[i].name), column_of([&](const Device& d) { return d[attribute]; }),
               dimension)
        .set_attribute("units", table[i].units);
  }
  write_curves(group, devices, dimension);
}

std::vector<Device> read_devices(const h5::Group& group) {
  std::vector<Device> devices(group.size("device_class"));
  for (const TextColumn& column : text_columns) {
    if (!group.has_dataset(column.name)) continue;
    auto values = sized(group.read_strings(column.name), devices.size(), group, column.name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      devices[i].*column.member = std::move(values[i]);
    }
  }
  const auto table = attribute_table();
  for (std::size_t a = 0; a < table.size(); ++a) {
    const std::string name(table[a].name);
    if (!group.has_dataset(name)) continue;
    const auto values = sized(group.read<double>(name), devices.size(), group, name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      try {
        devices[i].set(static_cast<Attribute>(a), values[i]);
      } catch (const UsageError& error) {
        throw DataError(fmt::format("{}: row {}: {}", group.where(), i, error.what()));
      }
    }
  }
  read_curves(group, devices);
  return devices;
}

}  // namespace forecost
