#include <cmath>
#include <iostream>

#include <fmt/format.h>
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
    "the rank is bound to). forecost collect probes its devices when it starts; until then the\n"
    "attributes that begin with probed_ are absent.",
    "  forecost devices\n"
    "  forecost devices --cores 1 --json\n"
    "  mpirun -n 2 forecost devices"};

Json json_of(const Device& device, std::string_view backend) {
  Json json{{"name", device.name},     {"class", device.device_class}, {"uuid", device.uuid},
            {"vendor", device.vendor}, {"kind", device.kind},          {"host", device.host},
            {"backend", backend}};
  for (std::size_t i = 0; i < attribute_count; ++i) {
    const double value = device[static_cast<Attribute>(i)];
    json[std::string(attribute_table()[i].name)] = std::isnan(value) ? Json() : Json(value);
  }
  return json;
}

std::string text_of(const Json& value, const std::function<std::string(double)>& format) {
  return value.is_null() ? "-" : format(value.get<double>());
}

ExitCode run(const World& world, const std::vector<std::string>& arguments) {
  po::options_description options;
  // clang-format off
  options.add_options()
      ("backend", po::value<std::string>()->default_value("auto"), "auto, cpu, replay")
      ("replay", po::value<std::string>()->default_value(""), "as of forecost collect")
      ("cores", po::value<int>()->default_value(0), "processors of a CPU device; 0: those bound")
      ("json", "print one JSON object");
  // clang-format on
  po::variables_map values;
  bool asked_for_help = false;
  std::string own;
  agree(world, [&] {
    asked_for_help = !parse(world, help, options, 0, arguments, values);
    if (asked_for_help) return;
    const auto replay = values["replay"].as<std::string>();
    auto name = values["backend"].as<std::string>();
    if (!replay.empty() && name == "auto") name = "replay";
    const auto backend =
        open_backend(name, {cores_of(values), world.local_rank(), world.local_size(), world.rank(),
                            world.size(), replay, 0});
    if (backend) own = json_of(backend->device(), backend->name()).dump();
  });
  if (asked_for_help) return ExitCode::done;

  Json devices = Json::array();
  for (const auto& text : world.all_gather(own)) {
    if (!text.empty()) devices.push_back(Json::parse(text));
  }
  if (world.rank() != 0) return ExitCode::done;
  if (values.count("json") > 0) {
    std::cout << Json{{"devices", devices}}.dump(2) << "\n";
    return ExitCode::done;
  }
  TextTable table({"class", "name", "backend", ">cores", ">memory", ">peak f32", "uuid"});
  for (const Json& device : devices) {
    table.add(
        {device["class"], device["name"], device["backend"], text_of(device["cores"], format_count),
         text_of(device["memory_bytes"], format_bytes),
         text_of(device["peak_f32_flops"], [](double value) { return format_si(value, "FLOP/s"); }),
         device["uuid"]});
  }
  std::cout << table.str();
  return ExitCode::done;
}

}  // namespace

extern const Verb devices_verb;
const Verb devices_verb{"devices", "what this node has, as it will be recorded", &run};

}  // namespace forecost::cli
