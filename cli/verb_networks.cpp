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
    "(a multiply-add is two) are those of inference at batch 1; dropout is of training alone.",
    "  forecost networks\n"
    "  forecost networks resnet50\n"
    "  forecost networks my-network.toml --json"};

/// Work of each node in inference; none of what changes shapes or is of training alone.
std::vector<Work> works(const Network& network) {
  std::vector<Work> works(network.nodes.size());
  for (const LayerRun& run : network.runs(1, Mode::inference)) {
    works[run.node] = run.layer.work(Pass::forward, DType::f32);
  }
  return works;
}

std::int64_t layer_count(const Network& network) {
  return std::count_if(network.nodes.begin(), network.nodes.end(),
                       [](const NetworkNode& node) { return node.layer.has_value(); });
}

Json network_json(const Network& network, bool with_nodes) {
  Json json{{"name", network.name},
            {"title", network.title},
            {"source", network.source},
            {"parameters", network.parameters()},
            {"forward_flops", network.forward_flops()},
            {"layers", layer_count(network)},
            {"input", network.input.sides()}};
  if (!with_nodes) return json;
  json["nodes"] = Json::array();
  const auto of_nodes = works(network);
  for (std::size_t i = 0; i < network.nodes.size(); ++i) {
    const NetworkNode& node = network.nodes[i];
    Json item{{"name", node.name},        {"op", node.op},           {"in", node.in.sides()},
              {"out", node.out.sides()},  {"layer", nullptr},        {"parameters", nullptr},
              {"forward_flops", nullptr}, {"forward_bytes", nullptr}};
    if (node.layer) {
      item["layer"] = node.layer->text();
      item["parameters"] = node.parameter_count();
      item["forward_flops"] = of_nodes[i].flops;
      item["forward_bytes"] = of_nodes[i].bytes();
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
  const auto of_nodes = works(network);
  for (std::size_t i = 0; i < network.nodes.size(); ++i) {
    const NetworkNode& node = network.nodes[i];
    std::vector<std::string> cells{node.name, node.op, node.in.text(), node.out.text(), "-",
                                   "-",       "-"};
    if (node.layer) {
      bytes += of_nodes[i].bytes();
      cells[4] = format_count(static_cast<double>(node.parameter_count()));
      cells[5] = format_si(of_nodes[i].flops, "FLOP");
      cells[6] = format_bytes(of_nodes[i].bytes());
    }
    table.add(std::move(cells));
  }
  table.rule();
  table.add({"total", "", "", "", format_count(static_cast<double>(network.parameters())),
             format_si(network.forward_flops(), "FLOP"), format_bytes(bytes)});
  return fmt::format("{}{}{}\n\n{}", network.title, network.source.empty() ? "" : ": ",
                     network.source, table.str());
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
