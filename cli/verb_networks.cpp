#include <algorithm>
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/verb.hpp"
#include "core/table.hpp"
#include "core/units.hpp"
#include "data/networks/network.hpp"

namespace forecost::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Help help{
    "forecost networks [NAME|FILE.toml] [--json]",
    "Lists the networks that can be predicted, or the layers of one of them. Parameters and FLOPs\n"
    "(a multiply-add is two) are those of the layers that are predicted, at batch 1.",
    "  forecost networks\n"
    "  forecost networks resnet50\n"
    "  forecost networks my-network.toml --json"};

std::int64_t layer_count(const Network& network) {
  return std::count_if(network.nodes.begin(), network.nodes.end(),
                       [](const NetworkNode& node) { return node.layer.has_value(); });
}

Json shape_json(const ItemShape& shape) { return {shape.channels, shape.height, shape.width}; }

std::string shape_text(const ItemShape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

Json network_json(const Network& network, bool with_nodes) {
  Json json{{"name", network.name},
            {"title", network.title},
            {"source", network.source},
            {"parameters", network.parameters()},
            {"forward_flops", network.forward_flops()},
            {"layers", layer_count(network)},
            {"input", shape_json(network.input)},
            {"uncosted", Json::object()}};
  for (const auto& [op, count] : network.uncosted()) json["uncosted"][op] = count;
  if (!with_nodes) return json;
  json["nodes"] = Json::array();
  for (const NetworkNode& node : network.nodes) {
    Json item{{"name", node.name},           {"op", node.op},           {"in", shape_json(node.in)},
              {"out", shape_json(node.out)}, {"layer", nullptr},        {"parameters", nullptr},
              {"forward_flops", nullptr},    {"forward_bytes", nullptr}};
    if (node.layer) {
      const Work work = node.layer->work(Pass::forward, DType::f32);
      item["layer"] = node.layer->text();
      item["parameters"] = node.layer->parameter_count();
      item["forward_flops"] = work.flops;
      item["forward_bytes"] = work.bytes();
    }
    json["nodes"].push_back(item);
  }
  return json;
}

std::string list_table(const std::vector<Network>& networks) {
  TextTable table({"name", "title", ">parameters", ">FLOPs", ">layers"});
  for (const Network& network : networks) {
    table.add({network.name, network.title, format_count(static_cast<double>(network.parameters())),
               format_si(network.forward_flops(), "FLOP"), std::to_string(layer_count(network))});
  }
  return table.str();
}

std::string nodes_table(const Network& network) {
  TextTable table({"layer", "op", ">in", ">out", ">parameters", ">FLOPs", ">bytes (f32)"});
  double bytes = 0;
  for (const NetworkNode& node : network.nodes) {
    std::vector<std::string> cells{
        node.name, node.op, shape_text(node.in), shape_text(node.out), "-", "-", "-"};
    if (node.layer) {
      const Work work = node.layer->work(Pass::forward, DType::f32);
      bytes += work.bytes();
      cells[4] = format_count(static_cast<double>(node.layer->parameter_count()));
      cells[5] = format_si(work.flops, "FLOP");
      cells[6] = format_bytes(work.bytes());
    }
    table.add(std::move(cells));
  }
  table.rule();
  table.add({"total", "", "", "", format_count(static_cast<double>(network.parameters())),
             format_si(network.forward_flops(), "FLOP"), format_bytes(bytes)});
  return fmt::format("{}: {}\n\n{}", network.title, network.source, table.str());
}

ExitCode run(const World& world, const std::vector<std::string>& arguments) {
  po::options_description options;
  options.add_options()("json", po::bool_switch(), "print one JSON object");
  po::variables_map values;
  if (!parse(world, help, options, 1, arguments, values)) return ExitCode::done;
  const auto names = positionals(values);
  std::vector<Network> networks;
  for (const auto& name : names.empty() ? shipped_networks() : names) {
    networks.push_back(find_network(name));
  }
  if (world.rank() != 0) return ExitCode::done;
  if (values["json"].as<bool>()) {
    Json json{{"networks", Json::array()}};
    for (const auto& network : networks) {
      json["networks"].push_back(network_json(network, !names.empty()));
    }
    std::cout << json.dump(2) << "\n";
  } else {
    std::cout << (names.empty() ? list_table(networks) : nodes_table(networks.front()));
  }
  return ExitCode::done;
}

}  // namespace

extern const Verb networks_verb;
const Verb networks_verb{"networks", "list networks, or the layers of one", &run};

}  // namespace forecost::cli
