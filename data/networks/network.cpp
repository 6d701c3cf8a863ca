#include "data/networks/network.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/file.hpp"
#include "data/networks/structural.hpp"
#include "data/operators/conv2d.hpp"
#include "data/operators/dense.hpp"
#include "data/toml.hpp"
#include "data/toml_layer.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

/// Names that a layer may refer to, innermost scope last: [[layer]] entries, then the group around.
struct Scope {
  const Scope* outer = nullptr;
  std::map<std::string, std::optional<std::size_t>> nodes;  ///< nullopt: the network's input

  const std::optional<std::size_t>* find(const std::string& name) const {
    const auto at = nodes.find(name);
    if (at != nodes.end()) return &at->second;
    return outer == nullptr ? nullptr : outer->find(name);
  }
  std::vector<std::string> known() const {
    std::vector<std::string> names = outer == nullptr ? std::vector<std::string>{} : outer->known();
    for (const auto& [name, node] : nodes) names.push_back(name);
    return names;
  }
};

class Builder {
 public:
  explicit Builder(Network& network) : network_(network) {}

  /// A [[layer]] entry: one node, or a group of them, `repeat` times.
  void entry(const TomlValue& table, Scope& scope, const std::string& prefix) {
    const std::int64_t repeat = table.integer("repeat", 1, 1, 10000);
    const bool group = table.find("layers") != nullptr;
    const std::string kind = group ? "group" : table.at("op").as_text();
    const std::string name =
        table.text("name", fmt::format("{}{}", kind, ++counts_[prefix + kind]));
    if (name == "input" || name == "group_input" || scope.nodes.contains(name)) {
      table.fail(
          fmt::format("the name '{}' is taken; expected one that no other layer here has", name));
    }
    for (std::int64_t i = 1; i <= repeat; ++i) {
      const std::string own = repeat == 1 ? name : fmt::format("{}_{}", name, i);
      if (group) {
        table.only({"name", "repeat", "layers", "input"});
        Scope inner{&scope, {}};
        if (const TomlValue* input = table.find("input"); input != nullptr && i == 1) {
          last_ = lookup(*input, scope);
        }
        inner.nodes["group_input"] = last_;
        for (const TomlValue& item : table.at("layers").as_array()) {
          entry(item, inner, prefix + own + ".");
        }
      } else {
        node(table, kind, prefix + own, scope);
      }
      scope.nodes[own] = last_;
    }
    scope.nodes[name] = last_;
  }

 private:
  static std::optional<std::size_t> lookup(const TomlValue& name, const Scope& scope) {
    const auto* found = scope.find(name.as_text());
    if (found == nullptr) name.fail(unknown_name("layer", name.as_text(), scope.known()));
    return *found;
  }

  ItemShape shape_of(std::optional<std::size_t> node) const {
    return node ? network_.nodes[*node].out : network_.input;
  }

  void node(const TomlValue& table, const std::string& op, const std::string& name,
            const Scope& scope) {
    NetworkNode node;
    node.name = name;
    node.op = op;
    std::vector<std::optional<std::size_t>> inputs;
    if (const TomlValue* input = table.find("input")) {
      for (const TomlValue& item : input->as_list()) inputs.push_back(lookup(item, scope));
    } else {
      inputs.push_back(last_);
    }
    if (const TomlValue* with = table.find("with")) {
      for (const TomlValue& item : with->as_list()) inputs.push_back(lookup(item, scope));
    }
    std::vector<ItemShape> shapes;
    for (const auto& input : inputs) {
      shapes.push_back(shape_of(input));
      if (input) node.inputs.push_back(*input);
    }
    node.in = shapes.front();
    if (const Structural* structural = find_structural(op)) {
      std::vector<std::string> keys{"op", "name", "repeat", "input", "with"};
      keys.insert(keys.end(), structural->keys.begin(), structural->keys.end());
      table.only(keys);
      node.out = structural->shape(table, shapes, node.attributes);
    } else {
      costed(table, node, shapes);
    }
    network_.nodes.push_back(std::move(node));
    last_ = network_.nodes.size() - 1;
  }

  static const Operator& known_operator(const TomlValue& table, const std::string& op) {
    std::vector<std::string> known;
    for (const Operator* each : operators()) {
      if (each->name == op) return *each;
      known.emplace_back(each->name);
    }
    for (const auto& structural : structural_nodes()) known.emplace_back(structural.name);
    table.at("op").fail(unknown_name("operator", op, known));
  }

  /// A layer of the vocabulary: its shape parameters come from the input, the rest from the table.
  static void costed(const TomlValue& table, NetworkNode& node,
                     const std::vector<ItemShape>& inputs) {
    const Operator& op = known_operator(table, node.op);
    std::map<std::string_view, std::int64_t> inferred{{"batch", 1}};
    if (&op == &conv2d_operator) {
      inferred["in_channels"] = node.in.channels;
      inferred["in_h"] = node.in.height;
      inferred["in_w"] = node.in.width;
    } else if (&op == &dense_operator) {
      inferred["in_features"] = node.in.elements();
    }

    std::vector<std::string> keys{"op", "name", "repeat", "input", "with"};
    for (auto& key : layer_keys(op)) {
      if (key != "side" && !inferred.contains(key)) keys.push_back(std::move(key));
    }
    table.only(keys);

    std::vector<std::int64_t> values(op.parameters.size());
    std::vector<bool> given(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = op.parameters[i].default_value.value_or(0);
      if (const auto at = inferred.find(op.parameters[i].name); at != inferred.end()) {
        values[i] = at->second;
        given[i] = true;
      }
    }
    for (const auto& key : table.keys()) {
      for (const std::size_t index : parameters_of_key(op, key)) {
        if (given[index])
          table.at(key).fail(fmt::format("sets {} twice", op.parameters[index].name));
        given[index] = true;
        values[index] = parameter_value(op.parameters[index], table.at(key));
      }
    }
    // Of operators that keep their input's shape.
    if (const auto features = op.index_of("features"); features && !given[*features]) {
      const auto rows = op.index_of("rows");
      values[*features] = node.in.elements() / (rows ? values[*rows] : 1);
      given[*features] = true;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!given[i] && !op.parameters[i].default_value) {
        table.fail(fmt::format("{}: expected a key '{}'", op.name, op.parameters[i].name));
      }
    }
    if (const TomlValue* padding = table.find("padding")) {
      for (const std::string_view pad : {"pad_top", "pad_bottom", "pad_left", "pad_right"}) {
        if (given[*op.index_of(pad)]) padding->fail(fmt::format("sets {} twice", pad));
      }
      apply_padding(op, padding_value(*padding), values);
    }
    try {
      node.layer = Layer::of_values(op, values);
    } catch (const UsageError& error) {
      table.fail(error.what());
    }
    std::int64_t found = 0;
    for (const ItemShape& input : inputs) found += input.elements();
    if (const std::int64_t expected = op.input_elements(*node.layer); found != expected) {
      table.fail(fmt::format("{}: expected inputs of {} elements in all, found {}", op.name,
                             expected, found));
    }
    const std::int64_t out = op.output_elements(*node.layer);
    if (&op == &conv2d_operator) {
      const Conv2dShape shape = conv2d_shape(*node.layer);
      node.out = {shape.out_channels, shape.out_h(), shape.out_w()};
    } else if (&op != &dense_operator && out == node.in.elements()) {
      node.out = node.in;
    } else {
      node.out = {out};
    }
  }

  Network& network_;
  std::optional<std::size_t> last_;  ///< what the next layer reads unless it says otherwise
  std::map<std::string, int> counts_;
};

}  // namespace

std::int64_t Network::parameters() const {
  std::int64_t sum = 0;
  for (const auto& node : nodes) sum += node.layer ? node.layer->parameter_count() : 0;
  return sum;
}

double Network::forward_flops() const {
  double sum = 0;
  for (const auto& node : nodes) {
    if (node.layer) sum += node.layer->work(Pass::forward, DType::f32).flops;
  }
  return sum;
}

std::map<std::string, int> Network::uncosted() const {
  std::map<std::string, int> counts;
  for (const auto& node : nodes) {
    if (node.layer) continue;
    const Structural* structural = find_structural(node.op);
    if (structural == nullptr || structural->takes_time) ++counts[node.op];
  }
  return counts;
}

Network load_network(const fs::path& file) {
  const TomlValue root = load_toml(file);
  root.only({"network", "layer"});
  const TomlValue& head = root.at("network");
  head.only({"name", "title", "source", "input"});
  Network network;
  network.name = head.at("name").as_text();
  network.title = head.text("title", network.name);
  network.source = head.text("source", "");
  const auto input = head.at("input").as_array();
  if (input.size() != 1 && input.size() != 3) {
    head.at("input").fail("expected [features] or [channels, height, width]");
  }
  network.input.channels = input[0].as_integer(1, 1 << 24);
  if (input.size() == 3) {
    network.input.height = input[1].as_integer(1, 1 << 16);
    network.input.width = input[2].as_integer(1, 1 << 16);
  }
  if (root.tables("layer").empty()) root.fail("expected at least one [[layer]]");
  Builder builder(network);
  Scope scope;
  scope.nodes["input"] = std::nullopt;
  for (const TomlValue& table : root.tables("layer")) builder.entry(table, scope, "");
  return network;
}

std::vector<std::string> shipped_networks() { return shipped_names("networks"); }

Network find_network(std::string_view name_or_file) {
  return load_network(shipped_or_file("networks", "network", name_or_file));
}

}  // namespace forecost
