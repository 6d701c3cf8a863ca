#include "data/networks/network.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/file.hpp"
#include "core/units.hpp"
#include "data/layer_draft.hpp"
#include "data/networks/structural.hpp"
#include "data/operators/elementwise.hpp"
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
    // An rnn has `layers` too.
    const bool group = table.find("op") == nullptr && table.find("layers") != nullptr;
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

  /// What `act` returns; its complaints are about this table.
  template <class Act>
  static auto told(const TomlValue& table, std::string_view op, const Act& act) {
    try {
      return act();
    } catch (const UsageError& error) {
      table.fail(fmt::format("{}: {}", op, error.what()));
    }
  }

  /// Other names for what the vocabulary has.
  static std::string_view operator_of(std::string_view op) {
    return op == "add" ? "elementwise" : op;
  }
  static std::string_view parameter_of(std::string_view op, std::string_view key) {
    return op == "activation" && key == "kind" ? "function" : key;
  }

  void node(const TomlValue& table, const std::string& op, const std::string& name,
            const Scope& scope) {
    std::vector<std::optional<std::size_t>> inputs;
    if (const TomlValue* input = table.find("input")) {
      for (const TomlValue& item : input->as_list()) inputs.push_back(lookup(item, scope));
    } else {
      inputs.push_back(last_);
    }
    if (const TomlValue* with = table.find("with")) {
      for (const TomlValue& item : with->as_list()) inputs.push_back(lookup(item, scope));
    }
    if (inputs.empty()) table.at("input").fail("expected the name of a layer, found none");
    if (op != "add" || inputs.size() <= 2) {
      append(table, op, name, inputs, scope);
      return;
    }
    // More than two are added one after another.
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      const bool final = i + 1 == inputs.size();
      append(table, op, final ? name : fmt::format("{}.{}", name, i),
             {i == 1 ? inputs[0] : last_, inputs[i]}, scope);
    }
  }

  void append(const TomlValue& table, const std::string& op, const std::string& name,
              const std::vector<std::optional<std::size_t>>& inputs, const Scope& scope) {
    NetworkNode node;
    node.name = name;
    node.op = operator_of(op);
    std::vector<ItemShape> shapes;
    for (const auto& input : inputs) {
      shapes.push_back(shape_of(input));
      if (input) node.inputs.push_back(*input);
    }
    node.in = shapes.front();
    if (const Structural* structural = find_structural(op)) {
      table.only({"op", "name", "repeat", "input"});
      if (shapes.size() != 1) table.fail(fmt::format("{}: expected one input", op));
      node.out = told(table, op, [&] { return structural->shape(shapes.front()); });
    } else {
      costed(table, op, node, shapes);
      if (const TomlValue* tied = table.find("tied")) tie(node, *tied, network_, scope);
    }
    network_.nodes.push_back(std::move(node));
    last_ = network_.nodes.size() - 1;
  }

  static const Operator& known_operator(const TomlValue& table, std::string_view op) {
    std::vector<std::string> known;
    for (const Operator* each : operators()) {
      if (each->name == operator_of(op)) return *each;
      known.emplace_back(each->name);
    }
    known.emplace_back("add");
    for (const auto& structural : structural_nodes()) known.emplace_back(structural.name);
    table.at("op").fail(unknown_name("operator", op, known));
  }

  /// A layer of the vocabulary: parameters that do not follow from the inputs come from the table.
  static void costed(const TomlValue& table, const std::string& spelling, NetworkNode& node,
                     const std::vector<ItemShape>& inputs) {
    const Operator& op = known_operator(table, spelling);
    LayerDraft draft(op);
    std::vector<std::string> keys{"op", "name", "repeat", "input", "with", "tied"};
    if (spelling == "add") {
      draft.fill("operation", static_cast<std::int64_t>(ElementwiseOperation::add));
    } else {
      for (auto& key : layer_keys(op)) {
        // The batch and the mode are chosen where the network runs.
        if (key != "batch" && key != "training") keys.push_back(std::move(key));
      }
      if (spelling == "activation") keys.emplace_back("kind");
    }
    table.only(keys);

    for (const auto& key : table.keys()) {
      for (const std::size_t index : parameters_of_key(op, parameter_of(spelling, key))) {
        auto& value = draft.values()[index];
        if (value) table.at(key).fail(fmt::format("sets {} twice", op.parameters[index].name));
        value = parameter_value(op.parameters[index], table.at(key));
      }
    }
    const TomlValue* padding = table.find("padding");
    for (const std::string_view pad : {"pad_top", "pad_bottom", "pad_left", "pad_right"}) {
      if (padding != nullptr && draft.has(pad)) padding->fail(fmt::format("sets {} twice", pad));
    }
    told(table, spelling, [&] {
      if (op.fit != nullptr) op.fit(draft, inputs);
      if (op.complete != nullptr) op.complete(draft);
    });
    draft.fill("batch", 1);

    std::vector<std::int64_t> values;
    for (const ParameterInfo& parameter : op.parameters) {
      const auto value = draft[parameter.name];
      if (!value) table.fail(fmt::format("{}: expected a key '{}'", op.name, parameter.name));
      values.push_back(*value);
    }
    if (padding != nullptr) apply_padding(op, padding_value(*padding), values);
    try {
      node.layer = Layer::of_values(op, values);
    } catch (const UsageError& error) {
      table.fail(error.what());
    }
    std::int64_t found = 0;
    for (const ItemShape& input : inputs) found += input.elements();
    if (const std::int64_t expected = op.input_elements(*node.layer); found != expected) {
      table.fail(fmt::format("{}: expected inputs of {} in all, found {}", op.name,
                             format_counted(expected, "element"), found));
    }
    node.out = op.output_shape == nullptr ? node.in : op.output_shape(*node.layer, inputs);
  }

  /// The layer computes with the weights of an earlier one.
  static void tie(NetworkNode& node, const TomlValue& to, const Network& network,
                  const Scope& scope) {
    const auto other = lookup(to, scope);
    const auto tensors = node.layer->op().parameter_tensors(*node.layer);
    std::vector<std::int64_t> others;
    if (other && network.nodes[*other].layer) {
      const Layer& layer = *network.nodes[*other].layer;
      others = layer.op().parameter_tensors(layer);
    }
    if (tensors.size() != 1 || others.empty() || tensors[0] != others[0]) {
      to.fail(fmt::format("expected a layer whose weights have {}, and no bias here",
                          format_counted(tensors.empty() ? 0 : tensors[0], "element")));
    }
    node.tied = true;
  }

  Network& network_;
  std::optional<std::size_t> last_;  ///< what the next layer reads unless it says otherwise
  std::map<std::string, int> counts_;
};

}  // namespace

Layer NetworkNode::at_batch(std::int64_t items) const {
  return layer->with("batch", items * (*layer)["batch"]);
}

std::int64_t NetworkNode::parameter_count() const {
  return layer && !tied ? layer->parameter_count() : 0;
}

std::int64_t Network::parameters() const {
  std::int64_t sum = 0;
  for (const auto& node : nodes) sum += node.parameter_count();
  return sum;
}

double Network::forward_flops() const {
  double sum = 0;
  for (const LayerRun& run : runs(1, Mode::inference)) {
    sum += run.layer.work(Pass::forward, DType::f32).flops;
  }
  return sum;
}

std::vector<LayerRun> Network::runs(std::int64_t batch, Mode mode) const {
  const bool training = mode == Mode::training;
  std::vector<LayerRun> runs;
  std::vector<bool> learns(nodes.size());  // whether the output depends on parameters
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NetworkNode& node = nodes[i];
    const bool input_learns = std::any_of(node.inputs.begin(), node.inputs.end(),
                                          [&](std::size_t from) { return learns[from]; });
    learns[i] = input_learns || (node.layer && node.layer->parameter_count() > 0);
    if (!node.layer) continue;
    const Operator& op = node.layer->op();
    if (op.training_only && !training) continue;
    LayerRun run{i, node.at_batch(batch), {Pass::forward}};
    if (op.index_of("training")) run.layer = run.layer.with("training", training ? 1 : 0);
    if (training) {
      if (input_learns && op.has(Pass::backward_data)) run.passes.push_back(Pass::backward_data);
      if (op.has(Pass::backward_weights)) run.passes.push_back(Pass::backward_weights);
      if (learns[i] && op.has(Pass::backward)) run.passes.push_back(Pass::backward);
      if (node.parameter_count() > 0) run.passes.push_back(Pass::update);
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

Network load_network(const fs::path& file) {
  const TomlValue root = load_toml(file);
  root.only({"network", "layer"});
  const TomlValue& head = root.at("network");
  head.only({"name", "title", "source", "input"});
  Network network;
  network.name = head.at("name").as_text();
  network.title = head.text("title", "");
  if (network.title.empty()) network.title = network.name;
  network.source = head.text("source", "");
  const auto input = head.at("input").as_array();
  if (input.empty() || input.size() > 3) {
    head.at("input").fail(
        "expected [features], [positions, features] or [channels, height, width]");
  }
  std::vector<std::int64_t> sides;
  for (const TomlValue& side : input) sides.push_back(side.as_integer(1, 1 << 24));
  network.input = ItemShape(std::move(sides));
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
