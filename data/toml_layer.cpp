#include "data/toml_layer.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "data/operators/window.hpp"

namespace forecost {

std::vector<std::size_t> parameters_of_key(const Operator& op, std::string_view key) {
  if (const auto index = op.index_of(key)) return {*index};
  if (key == "in") return {};  // spelled `side`
  if (key == "side" && op.index_of("height")) {
    return {*op.index_of("height"), *op.index_of("width")};
  }
  const std::string stem(key == "side" ? "in" : key);
  const auto h = op.index_of(stem + "_h"), w = op.index_of(stem + "_w");
  if (h && w) return {*h, *w};
  return {};
}

bool has_padding(const Operator& op) { return op.same_padding != nullptr; }

std::vector<std::string> layer_keys(const Operator& op) {
  std::vector<std::string> keys;
  for (const auto& parameter : op.parameters) keys.emplace_back(parameter.name);
  for (const std::string_view both : {"side", "kernel", "stride", "dilation"}) {
    if (!parameters_of_key(op, both).empty()) keys.emplace_back(both);
  }
  if (has_padding(op)) keys.emplace_back("padding");
  return keys;
}

std::int64_t parameter_value(const ParameterInfo& parameter, const TomlValue& value) {
  if (value.is_text()) {
    const auto& names = parameter.value_names;
    if (names.empty()) return value.as_integer();  // reports the wrong type
    const auto found = std::find(names.begin(), names.end(), value.as_text());
    if (found == names.end()) {
      value.fail(unknown_name("value", value.as_text(),
                              std::vector<std::string>(names.begin(), names.end())));
    }
    return found - names.begin();
  }
  if (value.kind == TomlValue::Kind::boolean && parameter.min == 0 && parameter.max == 1) {
    return value.as_boolean() ? 1 : 0;
  }
  return value.as_integer(parameter.min, parameter.max);
}

Padding padding_value(const TomlValue& value) {
  if (!value.is_text()) return {.each = value.as_integer(0, 4096)};
  if (value.as_text() == "same") return {.same = true};
  if (value.as_text() == "valid") return {};
  value.fail(
      fmt::format("expected \"same\", \"valid\" or a number, found \"{}\"", value.as_text()));
}

void apply_padding(const Operator& op, Padding padding, std::span<std::int64_t> values) {
  const auto at = [&](std::string_view name) -> std::int64_t& {
    return values[*op.index_of(name)];
  };
  const auto side = [&](std::string_view before, std::string_view after, std::string_view in,
                        std::string_view kernel, std::string_view stride,
                        std::string_view dilation) {
    SamePadding pads{padding.each, padding.each};
    if (padding.same) {
      const bool dilates = op.index_of(dilation).has_value();
      pads = op.same_padding(at(in), at(kernel), at(stride), dilates ? at(dilation) : 1);
    }
    at(before) = pads.before;
    at(after) = pads.after;
  };
  side("pad_top", "pad_bottom", "in_h", "kernel_h", "stride_h", "dilation_h");
  side("pad_left", "pad_right", "in_w", "kernel_w", "stride_w", "dilation_w");
}

}  // namespace forecost
