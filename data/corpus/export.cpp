#include "data/corpus/export.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/file.hpp"
#include "data/corpus/fields.hpp"
#include "data/corpus/reader.hpp"
#include "data/text.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

using Operators = std::vector<const Operator*>;

constexpr const char* operator_column = "operator";
constexpr const char* samples_column = "samples_s";
constexpr std::size_t piece_bytes = std::size_t{1} << 20;

template <class T>
bool contains(const std::vector<T>& values, const T& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

/// All there are, the samples last.
std::vector<std::string> columns_of(const Operators& operators) {
  std::vector<std::string> columns{operator_column};
  for (const Operator* op : operators) {
    for (const ParameterInfo& parameter : op->parameters) {
      const std::string name(parameter.name);
      if (!contains(columns, name)) columns.push_back(name);
    }
  }
  for_each_field([&](const char* name, auto&&...) { columns.emplace_back(name); });
  columns.emplace_back(samples_column);
  return columns;
}

void append_csv_text(std::string& out, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

void append_json_text(std::string& out, std::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return c >= ' ' && c <= '~' && c != '"' && c != '\\';
  });
  if (plain) {  // nearly all are, and a million rows have a dozen million texts
    out.append(1, '"').append(text).append(1, '"');
  } else {
    // A byte that is no UTF-8 has no form in JSON.
    out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

/// Turns rows into lines. A row's values are first rendered into one cell per column, since fields
/// and parameters come in another order than columns were asked for; an empty cell is an absent
/// value in both formats.
class Lines {
 public:
  Lines(TableFormat format, const Operators& operators, std::vector<std::string> columns)
      : json_(format == TableFormat::jsonl), columns_(std::move(columns)), cells_(columns_.size()) {
    const auto column = [&](std::string_view name) -> Column {
      const auto found = std::find(columns_.begin(), columns_.end(), name);
      if (found == columns_.end()) return std::nullopt;
      return static_cast<std::size_t>(found - columns_.begin());
    };
    operator_ = column(operator_column);
    samples_ = column(samples_column);
    for (const Operator* op : operators) {
      for (const ParameterInfo& parameter : op->parameters) {
        parameters_[op].push_back(column(parameter.name));
      }
    }
    for (const std::string& name : columns_of({})) {
      if (name != operator_column && name != samples_column) fields_.push_back(column(name));
    }
  }

  std::string header() const {
    std::string line;
    if (json_) return line;
    for (const std::string& name : columns_) line.append(line.empty() ? "" : ",").append(name);
    return line + "\n";
  }

  void append(std::string& out, const Measurement& row) {
    for (std::string& cell : cells_) cell.clear();
    const Operator& op = row.task.layer.op();
    if (operator_) text(cells_[*operator_], op.name);
    const auto& parameters = parameters_.at(&op);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i]) continue;
      const auto names = op.parameters[i].value_names;
      const std::int64_t value = row.task.layer.values()[i];
      if (names.empty()) {
        number(cells_[*parameters[i]], value);
      } else {
        text(cells_[*parameters[i]], names[static_cast<std::size_t>(value)]);
      }
    }
    auto field = fields_.begin();
    visit_fields(row, [&](const char*, const char*, const auto& member) {
      using Value = std::decay_t<decltype(member)>;
      const Column column = *field++;
      if (!column) return;
      if constexpr (std::is_enum_v<Value>) {
        text(cells_[*column], name_of(member));
      } else if constexpr (std::is_same_v<Value, std::string>) {
        text(cells_[*column], member);
      } else {
        number(cells_[*column], member);
      }
    });
    if (samples_) samples(cells_[*samples_], row.samples_s);
    join(out);
  }

 private:
  using Column = std::optional<std::size_t>;  ///< none if it was not asked for

  void text(std::string& cell, std::string_view value) const {
    json_ ? append_json_text(cell, value) : append_csv_text(cell, value);
  }

  template <class T>
  void number(std::string& cell, T value) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (json_ ? !std::isfinite(value) : std::isnan(value)) {
        cell += json_ ? "null" : "";
        return;
      }
    }
    fmt::format_to(std::back_inserter(cell), "{}", value);
  }

  void samples(std::string& cell, const std::vector<float>& values) const {
    cell += json_ ? "[" : "\"";
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) cell += json_ ? ',' : ' ';
      number(cell, values[i]);
    }
    cell += json_ ? "]" : "\"";
  }

  void join(std::string& out) const {
    bool first = true;
    if (json_) out += '{';
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (json_ && cells_[i].empty()) continue;
      if (!std::exchange(first, false)) out += ',';
      if (json_) out.append(1, '"').append(columns_[i]).append("\":");
      out += cells_[i];
    }
    out += json_ ? "}\n" : "\n";
  }

  bool json_;
  std::vector<std::string> columns_, cells_;
  Column operator_, samples_;
  std::unordered_map<const Operator*, std::vector<Column>> parameters_;
  std::vector<Column> fields_;
};

/// The columns to write, in order.
std::vector<std::string> chosen_columns(const ExportOptions& options, const Operators& operators) {
  std::vector<std::string> known = columns_of(operators), chosen = options.columns;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (!contains(known, chosen[i])) throw UsageError(unknown_name("column", chosen[i], known));
    if (std::find(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(i), chosen[i]) !=
        chosen.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw UsageError(fmt::format("column {} is asked for twice", chosen[i]));
    }
  }
  if (chosen.empty()) {
    chosen.assign(known.begin(), known.end() - 1);  // all but the samples
  }
  if (options.samples && !contains(chosen, known.back())) chosen.push_back(known.back());
  return chosen;
}

/// What a reader calls that which the columns are made of.
std::vector<std::string> fields_behind(const std::vector<std::string>& columns) {
  const std::vector<std::string> without_parameters = columns_of({});
  std::vector<std::string> fields;
  for (const std::string& name : columns) {
    if (name == operator_column) continue;
    const std::string field = contains(without_parameters, name) ? name : "layer";
    if (!contains(fields, field)) fields.push_back(field);
  }
  return fields;
}

void check_classes(const std::vector<std::string>& wanted, const std::vector<Device>& devices) {
  std::vector<std::string> known;
  for (const Device& device : devices) {
    if (!contains(known, device.device_class)) known.push_back(device.device_class);
  }
  for (const std::string& name : wanted) {
    if (!contains(known, name)) throw UsageError(unknown_name("device class", name, known));
  }
}

/// Whether every name in the first line is a column's.
bool is_export(std::string line) {
  const std::vector<std::string> known = columns_of({operators().begin(), operators().end()});
  if (line.starts_with('{')) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) return false;
    return std::all_of(json.items().begin(), json.items().end(),
                       [&](const auto& item) { return contains(known, item.key()); });
  }
  for (line += ','; !line.empty();) {
    const std::size_t comma = line.find(',');
    if (!contains(known, line.substr(0, comma))) return false;
    line.erase(0, comma + 1);
  }
  return true;
}

}  // namespace

TableFormat table_format_of(const fs::path& file) {
  const std::string ending = file.extension().string();
  for (std::size_t i = 0; i < EnumNames<TableFormat>::names.size(); ++i) {
    const auto format = static_cast<TableFormat>(i);
    if (!ending.empty() && ending.substr(1) == name_of(format)) return format;
  }
  throw UsageError(
      fmt::format("-o {}: expected a name that ends in .csv or .jsonl, or --format csv or jsonl",
                  file.string()));
}

ExportCount export_corpus(const fs::path& file, const ExportOptions& options,
                          const std::function<void(std::string_view)>& write) {
  const CorpusReader reader(file);
  Operators chosen;
  for (const std::string& name : options.operators) chosen.push_back(&find_operator(name));
  if (chosen.empty()) chosen = reader.operators();
  check_classes(options.device_classes, reader.tables().devices);
  const auto columns = chosen_columns(options, chosen);

  CorpusReader::Scan scan{.columns = fields_behind(columns)};
  if (!options.statuses.empty() || !options.device_classes.empty()) {
    scan.where_columns = {"status", "device_class"};
    scan.where = [&](const Measurement& row) {
      const auto wanted = [](const auto& values, const auto& value) {
        return values.empty() || contains(values, value);
      };
      return wanted(options.statuses, row.status) &&
             wanted(options.device_classes, row.device_class);
    };
  }
  ExportCount count{.rows = 0, .columns = columns.size()};
  Lines lines(options.format, chosen, columns);
  std::string out = lines.header();
  for (const Operator* op : reader.operators()) {
    if (!contains(chosen, op)) continue;
    scan.op = op;
    reader.scan(scan, [&](const Measurement& row, std::size_t) {
      lines.append(out, row);
      ++count.rows;
      if (out.size() >= piece_bytes) {
        write(out);
        out.clear();
      }
    });
  }
  write(out);
  return count;
}

ExportCount export_corpus(const fs::path& file, const ExportOptions& options,
                          const fs::path& output) {
  ExportCount count{};
  replace_file(output, [&](const fs::path& temporary) {
    std::ofstream out(temporary, std::ios::binary);
    const auto check = [&] {
      if (!out) {
        throw EnvironmentError(
            fmt::format("{}: cannot be written: {}", output.string(), std::strerror(errno)));
      }
    };
    check();
    count = export_corpus(file, options, [&](std::string_view bytes) {
      out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      check();
    });
    out.close();
    check();
  });
  return count;
}

void check_export_output(const fs::path& output) {
  check_text_output(output, "-o", "export", is_export);
}

}  // namespace forecost
