#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "cli/verb.hpp"
#include "collect/backend.hpp"
#include "core/table.hpp"
#include "core/units.hpp"
#include "mpi/agree.hpp"

namespace forecost::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr Help help{
    "forecost devices [--backend B] [--cores N] [--json]",
    "What this node has, as it will be recorded: one device per rank (a CPU device is the cores "
    "that\n"
    "the rank is bound to), and what makes timings on it doubtful. forecost collect probes its\n"
    "devices when it starts; until then the attributes that begin with probed_ are absent. The\n"
    "table shows what the catalogue, configs/devices/CLASS.toml, says of the class.",
    "  forecost devices\n"
    "  forecost devices --cores 1 --json\n"
    "  mpirun -n 2 forecost devices"};

/// The catalogue's file of a class, if there is one.
std::optional<Device> catalogued(const std::string& device_class) {
  const auto names = shipped_devices();
  if (std::find(names.begin(), names.end(), device_class) == names.end()) return std::nullopt;
  return find_device(device_class);
}

Json json_of(const Device& device, std::string_view backend) {
  Json json{{"name", device.name},     {"class", device.device_class}, {"uuid", device.uuid},
            {"vendor", device.vendor}, {"kind", device.kind},          {"host", device.host},
            {"backend", backend}};
  for (std::size_t i = 0; i < attribute_count; ++i) {
    const double value = device[static_cast<Attribute>(i)];
    json[std::string(attribute_table()[i].name)] = std::isnan(value) ? Json() : Json(value);
  }
  json[std::string(bandwidth_curve_name)] =
      device.bandwidth_curve().empty() ? Json() : Json(device.bandwidth_curve());
  const auto known = catalogued(device.device_class);
  json["catalogue"] = !known                                                ? Json()
                      : known->has(Attribute::probed_bandwidth_bytes_per_s) ? Json("probed")
                                                                            : Json("nominal");
  return json;
}

std::string text_of(const Json& value, const std::function<std::string(double)>& format) {
  return value.is_null() ? "-" : format(value.get<double>());
}

ExitCode run(const World& world, const std::vector<std::string>& arguments) {
  po::options_description options;
  // clang-format off
  options.add_options()
      ("backend", po::value<std::string>()->default_value("auto"), "auto, cpu, cuda, replay")
      ("replay", po::value<std::string>()->default_value(""), "as of forecost collect")
      ("cores", po::value<int>()->default_value(0), "processors of a CPU device; 0: those bound")
      ("json", "print one JSON object");
  // clang-format on
  po::variables_map values;
  bool asked_for_help = false;
  std::unique_ptr<TimingBackend> backend;
  std::vector<std::string> passed_over;
  agree(world, [&] {
    asked_for_help = !parse(world, help, options, 0, arguments, values);
    if (asked_for_help) return;
    const auto replay = values["replay"].as<std::string>();
    const auto name = backend_of(values["backend"].as<std::string>(), replay);
    backend = open_backend(name,
                           {cores_of(values), world.local_rank(), world.local_size(), world.rank(),
                            world.size(), replay, 0},
                           &passed_over);
  });
  if (asked_for_help) return ExitCode::done;
  world.barrier();  // ranks that are still starting would be seen as other load
  std::string own;
  agree(world, [&] {
    if (!backend) return;
    Json json{{"device", json_of(backend->device(), backend->name())}};
    json["warnings"] = backend->warnings();
    json["passed_over"] = passed_over;
    own = json.dump();
  });

  Json devices = Json::array(), warnings = Json::array();
  std::set<std::string> hosts;
  const auto texts = world.all_gather(own);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const std::string& text = texts[rank];
    if (text.empty()) continue;
    Json json = Json::parse(text);
    const auto host = json["device"]["host"].get<std::string>();
    devices.push_back(std::move(json["device"]));
    for (const auto& line : json["passed_over"].get<std::vector<std::string>>()) {
      warnings.push_back(world.size() > 1 ? fmt::format("rank {} on {}: {}", rank, host, line)
                                          : line);
    }
    if (!hosts.insert(host).second) continue;  // other ranks would tell the same of it
    for (const auto& line : json["warnings"].get<std::vector<std::string>>()) {
      warnings.push_back(world.size() > 1 ? fmt::format("{}: {}", host, line) : line);
    }
  }
  if (world.rank() != 0) return ExitCode::done;
  if (values.count("json") > 0) {
    std::cout << Json{{"devices", devices}, {"warnings", warnings}}.dump(2) << "\n";
    return ExitCode::done;
  }
  TextTable table({"class", "name", "backend", ">cores", ">memory", ">peak f32", ">bandwidth",
                   ">probed f32", ">probed bandwidth", "catalogue", "uuid"});
  for (const Json& device : devices) {
    const auto known = catalogued(device["class"]);
    const auto figure = [&](Attribute attribute, const char* units) {
      const Json& own_value =
          device[std::string(attribute_table()[static_cast<std::size_t>(attribute)].name)];
      const double value = !own_value.is_null() ? own_value.get<double>()
                           : known              ? (*known)[attribute]
                                                : std::nan("");
      return format_si(value, units);
    };
    table.add(
        {device["class"], device["name"], device["backend"], text_of(device["cores"], format_count),
         text_of(device["memory_bytes"], format_bytes), figure(Attribute::peak_f32_flops, "FLOP/s"),
         figure(Attribute::bandwidth_bytes_per_s, "B/s"),
         figure(Attribute::probed_f32_flops, "FLOP/s"),
         figure(Attribute::probed_bandwidth_bytes_per_s, "B/s"),
         device["catalogue"].is_null() ? Json("-") : device["catalogue"], device["uuid"]});
  }
  std::cout << table.str();
  for (const auto& line : warnings.get<std::vector<std::string>>()) spdlog::warn("{}", line);
  return ExitCode::done;
}

}  // namespace

extern const Verb devices_verb;
const Verb devices_verb{"devices", "what this node has, as it will be recorded", &run};

}  // namespace forecost::cli
