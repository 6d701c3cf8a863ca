#include "data/networks/structural.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "data/operators/conv2d.hpp"
#include "data/toml_layer.hpp"

namespace forecost {

namespace {

using Attributes = std::map<std::string, std::string>;
using Shapes = std::span<const ItemShape>;

void one_input(const TomlValue& table, Shapes inputs) {
  if (inputs.size() != 1) table.fail("takes one input");
}

ItemShape unchanged(const TomlValue& table, Shapes inputs, Attributes&) {
  one_input(table, inputs);
  return inputs[0];
}

ItemShape activation(const TomlValue& table, Shapes inputs, Attributes& attributes) {
  one_input(table, inputs);
  attributes["kind"] = name_of(table.at("kind").as_enum<Activation>());
  return inputs[0];
}

ItemShape flatten(const TomlValue& table, Shapes inputs, Attributes&) {
  one_input(table, inputs);
  return {inputs[0].elements()};
}

ItemShape add(const TomlValue& table, Shapes inputs, Attributes&) {
  if (inputs.size() < 2) table.fail("add: expected a second input, as with = \"NAME\"");
  for (const ItemShape& shape : inputs) {
    if (shape == inputs[0]) continue;
    table.fail(fmt::format("add: inputs of unequal shape, {}x{}x{} and {}x{}x{}",
                           inputs[0].channels, inputs[0].height, inputs[0].width, shape.channels,
                           shape.height, shape.width));
  }
  return inputs[0];
}

ItemShape pool2d(const TomlValue& table, Shapes inputs, Attributes& attributes) {
  one_input(table, inputs);
  const std::string mode = table.at("mode").as_text();
  attributes["mode"] = mode;
  if (mode == "global_average") {
    table.only({"op", "name", "repeat", "input", "mode"});
    return {inputs[0].channels};
  }
  if (mode != "max" && mode != "average") {
    table.at("mode").fail("expected \"max\", \"average\" or \"global_average\"");
  }
  const std::int64_t kernel = table.at("kernel").as_integer(1, 4096);
  const std::int64_t stride = table.integer("stride", kernel, 1, 4096);
  const TomlValue* given = table.find("padding");
  const Padding padding = given == nullptr ? Padding{} : padding_value(*given);
  attributes["kernel"] = std::to_string(kernel);
  attributes["stride"] = std::to_string(stride);
  std::string pads;
  const auto out = [&](std::int64_t side) {
    SamePadding pad{padding.each, padding.each};
    if (padding.same) pad = same_padding(side, kernel, stride);
    pads += fmt::format("{}{},{}", pads.empty() ? "" : ",", pad.before, pad.after);
    const std::int64_t padded = side + pad.before + pad.after;
    if (padded < kernel) {
      table.fail(
          fmt::format("a kernel of {} does not fit into a padded input of {}", kernel, padded));
    }
    return (padded - kernel) / stride + 1;
  };
  const std::int64_t height = out(inputs[0].height), width = out(inputs[0].width);
  attributes["pad"] = pads;  // top,bottom,left,right
  return {inputs[0].channels, height, width};
}

}  // namespace

std::span<const Structural> structural_nodes() {
  static const std::vector<Structural> all{
      {"pool2d", true, {"mode", "kernel", "stride", "padding"}, &pool2d},
      {"batch_norm", true, {}, &unchanged},
      {"activation", true, {"kind"}, &activation},
      {"add", true, {}, &add},
      {"dropout", true, {}, &unchanged},
      {"flatten", false, {}, &flatten},
  };
  return all;
}

const Structural* find_structural(std::string_view name) {
  const auto all = structural_nodes();
  const auto at = std::find_if(all.begin(), all.end(), [&](auto& s) { return s.name == name; });
  return at == all.end() ? nullptr : &*at;
}

}  // namespace forecost
