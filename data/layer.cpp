#include "data/layer.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

#include <fmt/format.h>

#include "core/units.hpp"

namespace forecost {

namespace {

/// "3", or the name of an enumeration's value.
std::string value_text(const ParameterInfo& parameter, std::int64_t value) {
  if (parameter.value_names.empty()) return std::to_string(value);
  return std::string(parameter.value_names[static_cast<std::size_t>(value)]);
}

std::int64_t parse_value(const Operator& op, const ParameterInfo& parameter,
                         std::string_view text) {
  for (std::size_t i = 0; i < parameter.value_names.size(); ++i) {
    if (parameter.value_names[i] == text) return static_cast<std::int64_t>(i);
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw UsageError(
        fmt::format("{}: {}='{}': expected {}", op.name, parameter.name, text,
                    parameter.value_names.empty() ? "an integer" : "one of its names"));
  }
  return value;
}

std::vector<std::string> parameter_names(const Operator& op) {
  std::vector<std::string> names;
  for (const auto& parameter : op.parameters) names.emplace_back(parameter.name);
  return names;
}

}  // namespace

Layer::Layer(const Operator& op, const std::array<std::int64_t, max_parameters>& values)
    : op_(&op), values_(values) {
  validate();
}

Layer::Layer(const Operator& op, std::span<const std::pair<std::string, std::int64_t>> parameters)
    : op_(&op) {
  std::array<bool, max_parameters> given{};
  for (const auto& [name, value] : parameters) {
    const auto index = op.index_of(name);
    if (!index) {
      throw UsageError(
          fmt::format("{}: {}", op.name, unknown_name("parameter", name, parameter_names(op))));
    }
    if (std::exchange(given[*index], true)) {
      throw UsageError(fmt::format("{}: {} is given twice", op.name, name));
    }
    values_[*index] = value;
  }
  for (std::size_t i = 0; i < op.parameters.size(); ++i) {
    if (given[i]) continue;
    if (!op.parameters[i].default_value) {
      throw UsageError(fmt::format("{}: parameter {} is missing", op.name, op.parameters[i].name));
    }
    values_[i] = *op.parameters[i].default_value;
  }
  validate();
}

Layer::Layer(std::string_view op,
             std::initializer_list<std::pair<std::string, std::int64_t>> parameters)
    : Layer(find_operator(op), {parameters.begin(), parameters.size()}) {}

Layer Layer::of_values(const Operator& op, std::span<const std::int64_t> values) {
  if (values.size() != op.parameters.size()) {
    throw UsageError(fmt::format("{}: {} given, {} expected", op.name,
                                 format_counted(values.size(), "value"), op.parameters.size()));
  }
  std::array<std::int64_t, max_parameters> all{};
  std::copy(values.begin(), values.end(), all.begin());
  return {op, all};
}

void Layer::validate() const {
  for (std::size_t i = 0; i < op_->parameters.size(); ++i) {
    const ParameterInfo& parameter = op_->parameters[i];
    if (values_[i] < parameter.min || values_[i] > parameter.max) {
      throw UsageError(fmt::format("{}: {}={}: expected {} to {}", op_->name, parameter.name,
                                   values_[i], parameter.min, parameter.max));
    }
  }
  op_->check(*this);
}

Layer Layer::parse(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (words.empty()) throw UsageError("an empty layer text: expected 'operator name=value ...'");
  const Operator& op = find_operator(words[0]);
  std::vector<std::pair<std::string, std::int64_t>> parameters;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (equals == std::string_view::npos) {
      throw UsageError(fmt::format("{}: '{}': expected name=value", op.name, words[i]));
    }
    const std::string name(words[i].substr(0, equals));
    const auto index = op.index_of(name);
    const std::int64_t value =
        index ? parse_value(op, op.parameters[*index], words[i].substr(equals + 1)) : 0;
    parameters.emplace_back(name, value);
  }
  return {op, parameters};
}

std::int64_t Layer::operator[](std::string_view parameter) const {
  const auto index = op_->index_of(parameter);
  if (!index) {
    throw std::logic_error(fmt::format("{} has no parameter {}", op_->name, parameter));
  }
  return values_[*index];
}

Layer Layer::with(std::string_view parameter, std::int64_t value) const {
  const auto index = op_->index_of(parameter);
  if (!index) {
    throw std::logic_error(fmt::format("{} has no parameter {}", op_->name, parameter));
  }
  auto values = values_;
  values[*index] = value;
  return {*op_, values};
}

std::string Layer::text() const {
  std::string text(op_->name);
  for (std::size_t i = 0; i < op_->parameters.size(); ++i) {
    const ParameterInfo& parameter = op_->parameters[i];
    if (parameter.default_value == values_[i]) continue;
    text.append(" ").append(parameter.name).append("=").append(value_text(parameter, values_[i]));
  }
  return text;
}

std::int64_t Layer::parameter_count() const {
  const auto tensors = op_->parameter_tensors(*this);
  return std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0});
}

}  // namespace forecost
