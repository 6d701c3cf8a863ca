#include "data/corpus/import_mapping.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "core/file.hpp"
#include "data/corpus/fields.hpp"
#include "data/corpus/import_expression.hpp"
#include "data/layer_draft.hpp"
#include "data/text.hpp"
#include "data/toml_layer.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

std::string place_of(const TomlValue& value) {
  return fmt::format("{}:{}", *value.file, value.line);
}

/// A text, or a number as it stands.
std::string text_or_integer(const TomlValue& value) {
  return value.is_integer() ? std::to_string(value.as_integer()) : value.as_text();
}

/// A text that goes into the corpus.
const std::string& line_of_text(const TomlValue& value) {
  const std::string& text = value.as_text();
  if (!is_line(text)) {
    value.fail(fmt::format("expected a text of one line, found '{}'", shown(text)));
  }
  return text;
}

const std::string& some_text(const TomlValue& value) {
  if (value.as_text().empty()) value.fail("expected a text, found an empty one");
  return value.as_text();
}

void check_expression(const TomlValue& value) {
  const std::string& text = some_text(value);
  try {
    const Expression checked(text);
  } catch (const UsageError& error) {
    value.fail(error.what());
  }
}

/// Reads a source; `constant` reads a T from TOML. `more` are further keys that its table may have.
template <class T, class Constant>
void read_source(const TomlValue& value, ImportSource<T>& source, const Constant& constant,
                 std::vector<std::string> more = {}) {
  source.place = place_of(value);
  if (!value.is_table()) {
    source.constant = constant(value);
    return;
  }
  std::vector<std::string> known{"column", "values", "otherwise"};
  known.insert(known.end(), more.begin(), more.end());
  value.only(known);
  const TomlValue* column = value.find("column");
  const TomlValue* expression = value.find("expression");
  if ((column == nullptr) == (expression == nullptr)) {
    value.fail("expected one of 'column' and 'expression'");
  }
  const TomlValue* values = value.find("values");
  const TomlValue* otherwise = value.find("otherwise");
  if (expression != nullptr) {
    if (values != nullptr || otherwise != nullptr) {
      value.fail("expected 'values' and 'otherwise' with a column, found an expression");
    }
    check_expression(*expression);
    source.expression = expression->as_text();
    return;
  }
  source.column = some_text(*column);
  if (values != nullptr) {
    if (values->keys().empty()) values->fail("expected at least one text = value");
    for (const auto& text : values->keys())
      source.values.emplace_back(text, constant(values->at(text)));
  }
  if (otherwise != nullptr) {
    if (values == nullptr) value.fail("expected 'values' beside 'otherwise'");
    source.otherwise = constant(*otherwise);
  }
}

ImportInteger read_integer(const TomlValue& value, std::int64_t min, std::int64_t max) {
  ImportInteger source;
  source.min = min;
  source.max = max;
  read_source(value, source, [&](const TomlValue& v) { return v.as_integer(min, max); },
              {"expression"});
  return source;
}

template <class E>
ImportInteger read_enum(const TomlValue& value) {
  ImportInteger source;
  read_source(value, source,
              [](const TomlValue& v) { return static_cast<std::int64_t>(v.as_enum<E>()); });
  if (source.values.empty()) {  // a column that has our names
    const auto& names = EnumNames<E>::names;
    for (std::size_t i = 0; i < names.size(); ++i) {
      source.values.emplace_back(names[i], static_cast<std::int64_t>(i));
    }
  }
  return source;
}

template <class E>
ImportInteger constant_enum(E value) {
  ImportInteger source;
  source.constant = static_cast<std::int64_t>(value);
  return source;
}

ImportText read_text_source(const TomlValue& value) {
  ImportText source;
  read_source(value, source, [](const TomlValue& v) {
    return v.is_integer() ? text_or_integer(v) : line_of_text(v);
  });
  return source;
}

// --- [parameters] ---

ImportInteger read_parameter(const ParameterInfo& parameter, const TomlValue& value) {
  ImportInteger source;
  source.min = parameter.min;
  source.max = parameter.max;
  std::vector<std::string> more;
  if (parameter.value_names.empty()) more.emplace_back("expression");
  read_source(
      value, source, [&](const TomlValue& v) { return parameter_value(parameter, v); }, more);
  if (source.values.empty()) {
    for (std::size_t i = 0; i < parameter.value_names.size(); ++i) {
      source.values.emplace_back(parameter.value_names[i], static_cast<std::int64_t>(i));
    }
  }
  return source;
}

ImportInteger read_padding(const TomlValue& value) {
  ImportInteger source;
  source.min = 0;
  source.max = 4096;
  read_source(value, source,
              [](const TomlValue& v) {
                const Padding padding = padding_value(v);
                return padding.same ? ImportLayer::same_padding : padding.each;
              },
              {"expression"});
  return source;
}

ImportLayer read_layer(const Operator& op, const TomlValue& parameters) {
  ImportLayer layer;
  layer.op = &op;
  std::vector<std::string> set_by(op.parameters.size());
  const auto sets = [&](const TomlValue& value, std::size_t index) {
    if (!set_by[index].empty()) {
      value.fail(
          fmt::format("sets {}, which '{}' sets too", op.parameters[index].name, set_by[index]));
    }
    set_by[index] = value.key;
  };
  for (const auto& key : parameters.keys()) {
    const TomlValue& value = parameters.at(key);
    if (key == "padding" && has_padding(op)) {
      for (const std::string_view pad : {"pad_top", "pad_bottom", "pad_left", "pad_right"}) {
        sets(value, *op.index_of(pad));
      }
      layer.padding = read_padding(value);
      continue;
    }
    const auto indices = parameters_of_key(op, key);
    if (indices.empty()) continue;  // of another operator of this table
    for (const std::size_t index : indices) sets(value, index);
    layer.parameters.push_back({indices, read_parameter(op.parameters[indices[0]], value)});
  }
  for (std::size_t i = 0; i < op.parameters.size(); ++i) {
    if (set_by[i].empty() && !op.parameters[i].default_value) {
      parameters.fail(
          fmt::format("{}: expected parameter {} here", op.name, op.parameters[i].name));
    }
    layer.defaults.push_back(op.parameters[i].default_value.value_or(0));
  }
  // What some row could not do without is told here, where the line is known. Of a column of names
  // nothing is certain; of one of numbers, that it is there.
  for (const std::string& setter : set_by) layer.given.push_back(!setter.empty());
  std::vector<bool> certain = layer.given;
  std::vector<std::int64_t> values;
  for (const ParameterInfo& parameter : op.parameters) values.push_back(parameter.min);
  for (const ImportLayer::Parameter& parameter : layer.parameters) {
    for (const std::size_t index : parameter.indices) {
      values[index] = parameter.value.constant.value_or(values[index]);
      if (!parameter.value.constant && !op.parameters[index].value_names.empty()) {
        certain[index] = false;
      }
    }
  }
  try {
    complete(op, certain, values);
  } catch (const UsageError& error) {
    parameters.fail(fmt::format("{}: {}", op.name, error.what()));
  }
  return layer;
}

void read_layers(const TomlValue& root, ImportMapping& mapping) {
  std::vector<const Operator*> ops;  // those that the table has
  read_source(root.at("import").at("operator"), mapping.op, [&](const TomlValue& v) {
    try {
      const Operator* op = &find_operator(v.as_text());
      const auto index = std::find(ops.begin(), ops.end(), op) - ops.begin();
      if (index == std::ssize(ops)) ops.push_back(op);
      return static_cast<std::int64_t>(index);
    } catch (const UsageError& error) {
      v.fail(error.what());
    }
  });
  if (ops.empty()) {  // a column that has our names
    for (const Operator* op : operators()) {
      mapping.op.values.emplace_back(op->name, static_cast<std::int64_t>(ops.size()));
      ops.push_back(op);
    }
  }
  const TomlValue& parameters = root.at("parameters");
  std::vector<std::string> known;
  for (const Operator* op : ops) {
    for (auto& key : layer_keys(*op)) {
      if (std::find(known.begin(), known.end(), key) == known.end()) known.push_back(key);
    }
  }
  parameters.only(known);
  for (const Operator* op : ops) mapping.layers.push_back(read_layer(*op, parameters));
}

// --- [time] and [measurement] ---

struct Unit {
  std::string_view name;
  double divisor, factor;
};
constexpr std::array<Unit, 4> time_units{
    {{"s", 1, 1}, {"ms", 1e3, 1}, {"us", 1e6, 1}, {"ns", 1e9, 1}}};
constexpr std::array<Unit, 7> byte_units{{{"B", 1, 1},
                                          {"kB", 1, 1e3},
                                          {"MB", 1, 1e6},
                                          {"GB", 1, 1e9},
                                          {"KiB", 1, 0x1p10},
                                          {"MiB", 1, 0x1p20},
                                          {"GiB", 1, 0x1p30}}};

/// A constant is in the unit of the key's name; a column's unit must be told.
ImportNumber read_quantity(const TomlValue& value, std::span<const Unit> units) {
  ImportNumber source;
  read_source(value, source, [](const TomlValue& v) { return v.as_number(0); },
              {"expression", "unit"});
  if (source.constant) return source;
  std::vector<std::string> known;
  for (const Unit& unit : units) known.emplace_back(unit.name);
  const TomlValue* unit = value.find("unit");
  if (unit == nullptr) {
    value.fail(
        fmt::format("the unit of {} is missing: expected unit = one of {}",
                    source.column.empty()
                        ? "the expression '" + shown(source.expression, expression_shown) + "'"
                        : "column '" + source.column + "'",
                    fmt::join(known, ", ")));
  }
  for (const Unit& candidate : units) {
    if (candidate.name != unit->as_text()) continue;
    source.divisor = candidate.divisor;
    source.factor = candidate.factor;
    return source;
  }
  unit->fail(unknown_name("unit", unit->as_text(), known));
}

struct QuantityField {
  std::string_view name;
  double& (*of)(Measurement& row);
};
/// The fields that are quantities of that unit.
std::vector<QuantityField> fields_in(std::string_view units) {
  std::vector<QuantityField> fields;
  for_each_field([&](const char* name, const char* of_units, auto get) {
    using Value = std::decay_t<decltype(get(std::declval<Measurement&>()))>;
    if constexpr (std::is_same_v<Value, double>) {
      if (of_units == units) fields.push_back({name, get});
    }
  });
  return fields;
}
struct CountField {
  std::string_view name;
  std::int64_t& (*of)(Measurement& row);
  std::int64_t min;
};
constexpr std::array<CountField, 4> count_fields{{
    {"sample_count", [](Measurement& row) -> std::int64_t& { return row.time.n; }, 1},
    {"runs_per_sample", [](Measurement& row) -> std::int64_t& { return row.runs_per_sample; }, 1},
    {"outliers", [](Measurement& row) -> std::int64_t& { return row.time.outliers; }, 0},
    {"concurrent_ranks", [](Measurement& row) -> std::int64_t& { return row.concurrent_ranks; }, 0},
}};

template <class Fields>
std::vector<std::string> names_of(const Fields& fields) {
  std::vector<std::string> names;
  for (const auto& field : fields) names.emplace_back(field.name);
  return names;
}

void read_times(const TomlValue& time, ImportMapping& mapping) {
  const auto fields = fields_in("s");
  time.only(names_of(fields));
  for (const QuantityField& field : fields) {
    if (const TomlValue* value = time.find(field.name)) {
      mapping.quantities.push_back({field.name, field.of, read_quantity(*value, time_units)});
    }
  }
  mapping.has_median = time.find("median_s") != nullptr;
  if (!mapping.has_median && time.find("mean_s") == nullptr) {
    time.fail("expected median_s or mean_s here");
  }
}

void read_measurement(const TomlValue& measurement, ImportMapping& mapping) {
  const auto byte_fields = fields_in("B");
  auto known = names_of(count_fields);
  for (const auto& name : names_of(byte_fields)) known.push_back(name);
  for (const char* name : {"protocol", "status", "reason", "implementation"}) {
    known.emplace_back(name);
  }
  measurement.only(known);
  mapping.protocol = read_enum<Protocol>(measurement.at("protocol"));
  mapping.status = constant_enum(Status::ok);
  if (const TomlValue* status = measurement.find("status")) {
    mapping.status = read_enum<Status>(*status);
  }
  if (const TomlValue* value = measurement.find("reason"))
    mapping.reason = read_text_source(*value);
  if (const TomlValue* value = measurement.find("implementation")) {
    mapping.implementation = read_text_source(*value);
  }
  for (const QuantityField& field : byte_fields) {
    if (const TomlValue* value = measurement.find(field.name)) {
      mapping.quantities.push_back({field.name, field.of, read_quantity(*value, byte_units)});
    }
  }
  constexpr std::int64_t most = std::int64_t{1} << 53;
  for (const CountField& field : count_fields) {
    if (const TomlValue* value = measurement.find(field.name)) {
      mapping.counts.push_back({field.of, read_integer(*value, field.min, most)});
    }
  }
}

// --- [device], [environment], [filter], [repeats] ---

/// A shipped device, or a file beside the mapping.
Device read_device(const TomlValue& value, const fs::path& folder) {
  const auto shipped = shipped_devices();
  const std::string& name = value.as_text();
  if (std::find(shipped.begin(), shipped.end(), name) != shipped.end()) return find_device(name);
  if (fs::exists(folder / name)) return load_device(folder / name);
  value.fail(fmt::format("{}; nor is there such a file beside this one",
                         unknown_name("device", name, shipped)));
}

void read_device_section(const TomlValue& device, const fs::path& folder, ImportMapping& mapping) {
  device.only({"name", "uuid", "host"});
  if (const TomlValue* name = device.find("name")) {
    ImportInteger source;
    read_source(*name, source, [&](const TomlValue& v) {
      mapping.devices.push_back(read_device(v, folder));
      return static_cast<std::int64_t>(mapping.devices.size() - 1);
    });
    if (!source.constant && source.values.empty()) {  // a column that has our names
      for (const auto& shipped : shipped_devices()) {
        source.values.emplace_back(shipped, static_cast<std::int64_t>(mapping.devices.size()));
        mapping.devices.push_back(find_device(shipped));
      }
    }
    mapping.device = std::move(source);
  }
  if (const TomlValue* uuid = device.find("uuid")) mapping.uuid = read_text_source(*uuid);
  if (const TomlValue* host = device.find("host")) mapping.host = read_text_source(*host);
}

void read_filter(const TomlValue& filter, ImportMapping& mapping) {
  filter.only({"columns", "expression"});
  if (const TomlValue* columns = filter.find("columns")) {
    for (const auto& column : columns->keys()) {
      const TomlValue& values = columns->at(column);
      auto& out = mapping.filters.emplace_back();
      out.column = column;
      out.place = place_of(values);
      for (const TomlValue& value : values.as_list()) out.values.push_back(text_or_integer(value));
    }
  }
  if (const TomlValue* expression = filter.find("expression")) {
    check_expression(*expression);
    mapping.filter_expression = {expression->as_text(), place_of(*expression)};
  }
}

void read_repeats(const TomlValue& repeats, ImportMapping& mapping) {
  repeats.only({"number"});
  const TomlValue& number = repeats.at("number");
  if (number.is_table()) {
    mapping.repeats = ImportMapping::Repeats::column;
    mapping.replicate = read_integer(number, 0, std::int64_t{1} << 31);
  } else if (number.as_text() == "in_order") {
    mapping.repeats = ImportMapping::Repeats::in_order;
  } else if (number.as_text() != "refuse") {
    number.fail(
        fmt::format("expected \"refuse\", \"in_order\" or {{column = \"...\"}}, found \"{}\"",
                    number.as_text()));
  }
}

void read_csv_section(const TomlValue& csv, CsvDialect& dialect) {
  csv.only({"delimiter", "comment"});
  if (const TomlValue* delimiter = csv.find("delimiter")) {
    const std::string& text = delimiter->as_text();
    if (text.size() != 1 || text == "\"" || text == "\n" || text == "\r") {
      delimiter->fail("expected one character, such as \";\" or \"\\t\"");
    }
    dialect.delimiter = text[0];
  }
  if (const TomlValue* comment = csv.find("comment")) dialect.comment = some_text(*comment);
}

}  // namespace

ImportMapping parse_import_mapping(std::string_view text, const fs::path& file) {
  const TomlValue root = parse_toml(text, file.string());
  root.only({"import", "csv", "parameters", "task", "time", "measurement", "device", "environment",
             "filter", "repeats"});
  ImportMapping mapping;
  mapping.file = file.filename().string();
  mapping.text = text;

  const TomlValue& about = root.at("import");
  about.only({"name", "description", "source", "licence", "operator"});
  mapping.name = some_text(about.at("name"));
  for (const auto& [key, target] :
       {std::pair("name", &mapping.name), std::pair("source", &mapping.source),
        std::pair("licence", &mapping.licence)}) {
    if (const TomlValue* value = about.find(key)) *target = line_of_text(*value);
  }
  (void)about.text("description", "");
  if (const TomlValue* csv = root.find("csv")) read_csv_section(*csv, mapping.csv);
  read_layers(root, mapping);

  const TomlValue& task = root.at("task");
  task.only({"pass", "dtype", "optimizer", "cache_state", "algorithm_policy"});
  mapping.pass = read_enum<Pass>(task.at("pass"));
  for (const ImportLayer& layer : mapping.layers) {
    if (!mapping.pass.constant) break;
    const auto pass = static_cast<Pass>(*mapping.pass.constant);
    if (!layer.op->has(pass)) {
      task.at("pass").fail(fmt::format("{} has no pass {}", layer.op->name, name_of(pass)));
    }
  }
  mapping.dtype = read_enum<DType>(task.at("dtype"));
  const auto or_default = [&](const char* key, auto fallback) {
    const TomlValue* value = task.find(key);
    return value == nullptr ? constant_enum(fallback) : read_enum<decltype(fallback)>(*value);
  };
  mapping.optimizer = or_default("optimizer", Optimizer::none);
  mapping.cache = or_default("cache_state", CacheState::unknown);
  mapping.policy = or_default("algorithm_policy", AlgorithmPolicy::unknown);

  read_times(root.at("time"), mapping);
  read_measurement(root.at("measurement"), mapping);
  if (const TomlValue* device = root.find("device")) {
    read_device_section(*device, file.parent_path(), mapping);
  }
  if (const TomlValue* environment = root.find("environment")) {
    for (const auto& fact : environment->keys()) {
      if (!is_line(fact)) {
        throw UsageError(fmt::format("{}: '{}': expected a name of one line",
                                     place_of(environment->at(fact)), shown(fact)));
      }
      mapping.facts.emplace_back(fact, read_text_source(environment->at(fact)));
    }
  }
  if (const TomlValue* filter = root.find("filter")) read_filter(*filter, mapping);
  if (const TomlValue* repeats = root.find("repeats")) read_repeats(*repeats, mapping);
  return mapping;
}

ImportMapping find_import_mapping(std::string_view name_or_file) {
  const fs::path file = shipped_or_file("import", "mapping", name_or_file);
  return parse_import_mapping(read_text(file), file);
}

}  // namespace forecost
