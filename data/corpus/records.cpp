#include "data/corpus/records.hpp"

#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/corpus/fields.hpp"

namespace forecost {

namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "samples are stored little-endian");

std::string cbor(const json& value) {
  std::string bytes;
  json::to_cbor(value, bytes);
  return bytes;
}

template <class T>
void get(const json& from, const char* name, T& value) {
  const auto found = from.find(name);
  if (found == from.end()) return;
  if constexpr (std::is_enum_v<T>) {
    value = parse_enum<T>(found->get_ref<const std::string&>());
  } else {
    found->get_to(value);
  }
}

Device decode_device(const json& from) {
  Device device;
  get(from, "name", device.name);
  get(from, "vendor", device.vendor);
  get(from, "kind", device.kind);
  get(from, "device_class", device.device_class);
  get(from, "uuid", device.uuid);
  get(from, "host", device.host);
  const auto table = attribute_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto found = from.find(std::string(table[i].name));
    if (found != from.end()) device.set(static_cast<Attribute>(i), found->get<double>());
  }
  BandwidthCurve curve;
  get(from, bandwidth_curve_name.data(), curve);
  device.set_bandwidth_curve(std::move(curve));
  return device;
}

Measurement decode_row(const json& from) {
  Measurement row{.task = {.layer = Layer::parse(from.at("layer").get_ref<const std::string&>())}};
  visit_fields(row, [&](const char* name, const char*, auto& member) {
    get(from, name, member);
    if (name_in_version_1(name) != name) get(from, name_in_version_1(name).data(), member);
  });
  const auto samples = from.find("samples_s");
  if (samples != from.end()) {
    const auto& bytes = samples->get_binary();
    row.samples_s.resize(bytes.size() / sizeof(float));
    if (!bytes.empty()) {
      std::memcpy(row.samples_s.data(), bytes.data(), row.samples_s.size() * sizeof(float));
    }
  }
  return row;
}

}  // namespace

std::string encode(const Device& device) {
  json to{{"name", device.name}, {"vendor", device.vendor},
          {"kind", device.kind}, {"device_class", device.device_class},
          {"uuid", device.uuid}, {"host", device.host}};
  const auto table = attribute_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto attribute = static_cast<Attribute>(i);
    if (device.has(attribute)) to[std::string(table[i].name)] = device[attribute];
  }
  if (!device.bandwidth_curve().empty()) {
    to[std::string(bandwidth_curve_name)] = device.bandwidth_curve();
  }
  return cbor(to);
}

std::string encode(const Environment& environment) { return cbor({{"facts", environment.facts}}); }

std::string encode(const GangRecord& group) { return cbor({{"facts", group.facts}}); }

std::string encode(const SweepRecord& sweep) {
  return cbor({{"id", sweep.id}, {"name", sweep.name}, {"text", sweep.text}});
}

std::string encode(const Run& run) { return cbor({{"id", run.id}, {"facts", run.facts}}); }

std::string encode(const Measurement& row) {
  json to{{"layer", row.task.layer.text()}};
  visit_fields(row, [&](const char* name, const char*, const auto& member) {
    if constexpr (std::is_enum_v<std::decay_t<decltype(member)>>) {
      to[name] = name_of(member);
    } else {
      to[name] = member;
    }
  });
  std::vector<std::uint8_t> samples(row.samples_s.size() * sizeof(float));
  if (!samples.empty()) std::memcpy(samples.data(), row.samples_s.data(), samples.size());
  to["samples_s"] = json::binary(std::move(samples));
  return cbor(to);
}

void decode_into(Corpus& corpus, char kind, std::string_view payload, const std::string& place) {
  try {
    const json from = json::from_cbor(payload);
    switch (static_cast<RecordKind>(kind)) {
      case RecordKind::device:
        corpus.devices.push_back(decode_device(from));
        return;
      case RecordKind::environment:
        corpus.environments.push_back({from.at("facts").get<std::map<std::string, std::string>>()});
        return;
      case RecordKind::group:
        corpus.groups.push_back({from.at("facts").get<std::map<std::string, std::string>>()});
        return;
      case RecordKind::sweep: {
        SweepRecord sweep;
        get(from, "id", sweep.id);
        get(from, "name", sweep.name);
        get(from, "text", sweep.text);
        corpus.sweeps.push_back(std::move(sweep));
        return;
      }
      case RecordKind::run:
        corpus.runs.push_back({from.at("id").get<std::string>(),
                               from.at("facts").get<std::map<std::string, std::string>>()});
        return;
      case RecordKind::row:
        corpus.rows.push_back(decode_row(from));
        return;
    }
  } catch (const json::exception& error) {
    throw DataError(fmt::format("{}: not a record of this program: {}", place, error.what()));
  } catch (const UsageError& error) {
    throw DataError(fmt::format("{}: {}", place, error.what()));
  }
  throw DataError(fmt::format(
      "{}: unknown kind of record {:#04x}; the journal is of a newer version of Forecost", place,
      static_cast<unsigned char>(kind)));
}

}  // namespace forecost
