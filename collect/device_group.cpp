#include "collect/device_group.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "mpi/agree.hpp"

namespace forecost {

namespace {

using Json = nlohmann::json;

Json json_of(const Device& device) {
  Json json{{"class", device.device_class}, {"uuid", device.uuid}};
  for (std::size_t i = 0; i < attribute_count; ++i) {
    const double value = device[static_cast<Attribute>(i)];
    json["attributes"].push_back(std::isnan(value) ? Json() : Json(value));
  }
  json["bandwidth_curve"] = device.bandwidth_curve();
  return json;
}

Device device_of(const Json& json) {
  Device device;
  device.device_class = json.at("class");
  device.uuid = json.at("uuid");
  for (std::size_t i = 0; i < attribute_count; ++i) {
    const Json& value = json.at("attributes").at(i);
    if (!value.is_null()) device.set(static_cast<Attribute>(i), value.get<double>());
  }
  device.set_bandwidth_curve(json.at("bandwidth_curve").get<BandwidthCurve>());
  return device;
}

std::string text_of(const World& world, const TimingBackend* backend) {
  Json json{{"host", world.host()}};
  if (backend != nullptr) {
    json["device"] = json_of(backend->device());
    json["processors"] = backend->processors();
  }
  return json.dump();
}

DeviceGroup::Member member_of(const std::string& text) {
  const Json json = Json::parse(text);
  DeviceGroup::Member member;
  member.host = json.at("host");
  member.has_device = json.contains("device");
  if (!member.has_device) return member;
  member.device = device_of(json.at("device"));
  member.processors = json.at("processors").get<std::vector<int>>();
  return member;
}

void add_class(std::vector<Device>& classes, const Device& device) {
  const auto same = [&](const Device& known) { return known.device_class == device.device_class; };
  if (std::none_of(classes.begin(), classes.end(), same)) classes.push_back(device);
}

std::vector<int> common(std::vector<int> a, std::vector<int> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  std::vector<int> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

}  // namespace

std::vector<Device> DeviceGroup::classes() const {
  std::vector<Device> found;
  for (const Member& member : members) {
    if (member.has_device) add_class(found, member.device);
  }
  return found;
}

int DeviceGroup::devices() const {
  return static_cast<int>(std::count_if(members.begin(), members.end(),
                                        [](const Member& member) { return member.has_device; }));
}

int DeviceGroup::first_of(const std::string& device_class) const {
  const auto found = std::find_if(members.begin(), members.end(), [&](const Member& member) {
    return member.has_device && member.device.device_class == device_class;
  });
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

int DeviceGroup::neighbours(int rank) const {
  const std::string& host = members.at(static_cast<std::size_t>(rank)).host;
  int count = 0;
  for (int other = 0; other < static_cast<int>(members.size()); ++other) {
    const Member& member = members[static_cast<std::size_t>(other)];
    if (other != rank && member.has_device && member.host == host) ++count;
  }
  return count;
}

void refuse_shared_devices(const DeviceGroup& group) {
  for (std::size_t a = 0; a < group.members.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const auto &one = group.members[b], &two = group.members[a];
      if (!one.has_device || !two.has_device || one.host != two.host) continue;
      if (const auto both = common(one.processors, two.processors); !both.empty()) {
        throw EnvironmentError(fmt::format(
            "ranks {} and {} on {} share the processors {} (device {}): their times would disturb "
            "each other; bind each rank to cores of its own (mpirun --bind-to core --map-by "
            "slot:PE=N, srun --cpus-per-task=N --cpu-bind=cores), or start fewer ranks",
            b, a, one.host, fmt::join(both, ","), one.device.uuid));
      }
      if (one.device.uuid == two.device.uuid) {
        throw EnvironmentError(
            fmt::format("ranks {} and {} on {} have the same device {}: start "
                        "one rank per device",
                        b, a, one.host, one.device.uuid));
      }
    }
  }
}

DeviceGroup gather_devices(const World& world, const TimingBackend* backend) {
  DeviceGroup group;
  for (const auto& text : world.all_gather(text_of(world, backend))) {
    group.members.push_back(member_of(text));
  }
  try {
    if (group.devices() == 0) {
      throw EnvironmentError("no rank has a device; 'forecost devices' shows what is here");
    }
    refuse_shared_devices(group);
  } catch (const EnvironmentError& error) {  // every rank finds the same
    throw AgreedError(error.code(), error.what());
  }
  return group;
}

std::vector<Device> gather_classes(const World& world, const std::vector<Device>& own) {
  Json json = Json::array();
  for (const Device& device : own) json.push_back(json_of(device));
  std::vector<Device> classes;
  for (const auto& text : world.all_gather(json.dump())) {
    for (const Json& device : Json::parse(text)) add_class(classes, device_of(device));
  }
  return classes;
}

void warn_together(const World& world, const std::vector<std::string>& lines) {
  const auto told = world.all_gather(Json{{"host", world.host()}, {"lines", lines}}.dump());
  for (std::size_t rank = 0; rank < told.size() && world.rank() == 0; ++rank) {
    const Json json = Json::parse(told[rank]);
    for (const auto& line : json.at("lines").get<std::vector<std::string>>()) {
      spdlog::warn("{}{}",
                   world.size() == 1
                       ? ""
                       : fmt::format("rank {} on {}: ", rank, json.at("host").get<std::string>()),
                   line);
    }
  }
}

}  // namespace forecost
