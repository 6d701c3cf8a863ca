#include <algorithm>
#include <map>
#include <sstream>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/digest.hpp"
#include "core/version.hpp"
#include "data/corpus/corpus.hpp"
#include "data/corpus/fields.hpp"
#include "data/corpus/merge.hpp"
#include "data/h5/device_table.hpp"
#include "data/h5/h5.hpp"

// The layout of corpus.h5; docs/corpus.md describes it for readers in other languages.

namespace forecost {

namespace fs = std::filesystem;

namespace {

constexpr const char* schema_name = "forecost-corpus";
constexpr const char* row_dimension = "row";
constexpr const char* sample_dimension = "sample";

/// Every other group is an operator.
bool is_table(std::string_view group) {
  return group == "devices" || group == "environments" || group == "runs" || group == "sweeps";
}

/// Codes of an enumeration, as netCDF's conventions describe them.
void describe_names(h5::Dataset& dataset, std::span<const std::string_view> names) {
  std::vector<std::uint8_t> values;
  std::string meanings;
  for (std::size_t i = 0; i < names.size(); ++i) {
    values.push_back(static_cast<std::uint8_t>(i));
    meanings.append(i > 0 ? " " : "").append(names[i]);
  }
  dataset.set_attribute("flag_values", std::span<const std::uint8_t>(values));
  dataset.set_attribute("flag_meanings", meanings);
}

void describe_units(h5::Dataset& dataset, std::string_view units) {
  if (!units.empty()) dataset.set_attribute("units", units);
}

/// A column of one value of each row.
template <class Rows, class Get>
auto column_of(const Rows& rows, Get get) {
  std::vector<std::decay_t<decltype(get(*rows.begin()))>> values;
  values.reserve(rows.size());
  for (const auto& row : rows) values.push_back(get(row));
  return values;
}

using RowPointers = std::vector<const Measurement*>;

/// The rows of one operator by key, a failure before the ok row of its key, so that the same rows
/// give the same file, whichever rank or run measured them and in whichever order they were merged.
RowPointers sorted_rows(const Corpus& corpus, const Operator& op) {
  std::vector<std::pair<std::string, const Measurement*>> keyed;
  for (const Measurement& row : corpus.rows) {
    if (&row.task.layer.op() != &op) continue;
    keyed.emplace_back(row_key(row) + (row.status == Status::ok ? " 1" : " 0"), &row);
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  RowPointers rows;
  for (const auto& [key, row] : keyed) rows.push_back(row);
  return rows;
}

/// HDF5 keeps an attribute in one header message of at most 64 KB.
constexpr std::size_t history_bytes_max = 48000;

/// One line per change; of a very long history the oldest line and the newest that fit.
std::string history_text(const std::vector<std::string>& history) {
  std::size_t bytes = history.empty() ? 0 : history.front().size(), newest = history.size();
  while (newest > 1 && bytes + history[newest - 1].size() + 1 <= history_bytes_max) {
    bytes += history[--newest].size() + 1;
  }
  std::string text;
  for (std::size_t i = 0; i < history.size(); ++i) {
    if (i > 0 && i < newest) continue;
    if (i > 1 && i == newest) text += "\n(lines left out)";
    text.append(i > 0 ? "\n" : "").append(history[i]);
  }
  return text.substr(0, history_bytes_max + 100);
}

/// The field number `wanted` of visit_fields, which is a Value.
template <class Value, class Row>
auto& field_at(Row& row, std::size_t wanted) {
  std::conditional_t<std::is_const_v<Row>, const Value, Value>* found = nullptr;
  std::size_t at = 0;
  visit_fields(row, [&](const char*, const char*, auto& member) {
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, Value>) {
      if (at == wanted) found = &member;
    }
    ++at;
  });
  return *found;
}

void write_operator(h5::Group group, const Operator& op, const RowPointers& rows) {
  group.create_dimension(row_dimension, rows.size());
  for (std::size_t i = 0; i < op.parameters.size(); ++i) {
    const ParameterInfo& parameter = op.parameters[i];
    const std::string name(parameter.name);
    if (parameter.value_names.empty()) {
      group.write(name, column_of(rows, [&](auto* r) { return r->task.layer.values()[i]; }),
                  row_dimension);
    } else {
      auto codes = column_of(
          rows, [&](auto* r) { return static_cast<std::uint8_t>(r->task.layer.values()[i]); });
      auto dataset = group.write(name, codes, row_dimension);
      describe_names(dataset, parameter.value_names);
    }
  }
  // The fields' names, types and units are those of any row; their values are read row by row.
  std::size_t index = 0;
  const Measurement& any = *rows.front();
  visit_fields(any, [&](const char* name, const char* units, const auto& member) {
    using Value = std::decay_t<decltype(member)>;
    const auto values = column_of(rows, [&](const Measurement* row) {
      const Value& value = field_at<Value>(*row, index);
      if constexpr (std::is_enum_v<Value>) {
        return static_cast<std::uint8_t>(value);
      } else {
        return value;
      }
    });
    if constexpr (std::is_enum_v<Value>) {
      auto dataset = group.write(name, values, row_dimension);
      describe_names(dataset, EnumNames<Value>::names);
    } else if constexpr (std::is_same_v<Value, std::string>) {
      group.write_strings(name, values, row_dimension);
    } else {
      auto dataset = group.write(name, values, row_dimension);
      describe_units(dataset, units);
    }
    ++index;
  });

  std::vector<float> samples;
  std::vector<std::int64_t> begin;
  for (const Measurement* row : rows) {
    begin.push_back(static_cast<std::int64_t>(samples.size()));
    samples.insert(samples.end(), row->samples_s.begin(), row->samples_s.end());
  }
  auto first = group.write("sample_begin", begin, row_dimension);
  first.set_attribute("long_name",
                      "index of the row's first sample; they end where the next row's begin");
  group.create_dimension(sample_dimension, samples.size());
  auto raw = group.write("samples_s", samples, sample_dimension);
  describe_units(raw, "s");
}

template <class T>
void require_size(const std::vector<T>& values, std::size_t rows, const std::string& place) {
  if (values.size() != rows) {
    throw DataError(
        fmt::format("{}: {} values, but the group has {} rows", place, values.size(), rows));
  }
}

/// What the codes of a column mean: the file says so itself, and the program that wrote it may have
/// numbered them otherwise, or known fewer or more.
class Codes {
 public:
  Codes(const h5::Dataset& dataset, std::span<const std::string_view> names, std::string place)
      : names_(names), place_(std::move(place)) {
    const auto values = dataset.bytes_attribute("flag_values");
    std::istringstream meanings(dataset.string_attribute("flag_meanings"));
    for (std::string meaning; meanings >> meaning;) {
      if (listed_.size() < values.size()) {
        const auto known = std::find(names.begin(), names.end(), meaning);
        if (known != names.end()) index_[values[listed_.size()]] = known - names.begin();
      }
      listed_.push_back(meaning);
    }
    if (listed_.size() != values.size()) {
      throw DataError(fmt::format("{}: {} flag_values, but {} flag_meanings", place_, values.size(),
                                  listed_.size()));
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      listed_[i] = fmt::format("{}={}", values[i], listed_[i]);
    }
  }

  /// The index of the name in `names`.
  std::int64_t at(std::uint8_t code, std::size_t row) const {
    const auto found = index_.find(code);
    if (found != index_.end()) return found->second;
    throw DataError(fmt::format(
        "{}: row {}: code {} is none that forecost {} knows; the file lists {}, known are {}",
        place_, row, code, version, fmt::join(listed_, " "), fmt::join(names_, " ")));
  }

 private:
  std::span<const std::string_view> names_;
  std::string place_;
  std::vector<std::string> listed_;
  std::map<std::uint8_t, std::int64_t> index_;
};

void read_operator(const h5::Group& group, const Operator& op, bool with_samples,
                   std::vector<Measurement>& rows) {
  const std::string place = group.where();
  const std::size_t count = group.size("median_s");
  std::vector<std::vector<std::int64_t>> parameters;
  for (const ParameterInfo& parameter : op.parameters) {
    const std::string name(parameter.name);
    if (!group.has_dataset(name) && parameter.default_value) {  // written before it existed
      parameters.emplace_back(count, *parameter.default_value);
    } else if (parameter.value_names.empty()) {
      parameters.push_back(group.read<std::int64_t>(name));
    } else {
      const Codes codes(group.dataset(name), parameter.value_names, place + "/" + name);
      std::vector<std::int64_t>& column = parameters.emplace_back();
      for (const std::uint8_t code : group.read<std::uint8_t>(name)) {
        column.push_back(codes.at(code, column.size()));
      }
    }
    require_size(parameters.back(), count, place + "/" + name);
  }
  const std::size_t first = rows.size();
  std::vector<std::int64_t> values(parameters.size());
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = parameters[i][r];
    try {
      rows.push_back({.task = {.layer = Layer::of_values(op, values)}});
    } catch (const UsageError& error) {
      throw DataError(fmt::format("{}: row {}: {}", place, r, error.what()));
    }
  }
  std::size_t index = 0;
  if (count == 0) return;
  visit_fields(rows[first], [&](const char* name, const char*, const auto& member) {
    using Value = std::decay_t<decltype(member)>;
    const std::size_t wanted = index++;
    if (!group.has_dataset(name)) return;  // written before the field existed: its default stays
    const std::string column = place + "/" + name;
    const auto fill = [&](auto&& stored) {
      require_size(stored, count, column);
      for (std::size_t r = 0; r < count; ++r) {
        field_at<Value>(rows[first + r], wanted) = std::move(stored[r]);
      }
    };
    if constexpr (std::is_enum_v<Value>) {
      const Codes codes(group.dataset(name), EnumNames<Value>::names, column);
      std::vector<Value> named;
      for (const std::uint8_t code : group.read<std::uint8_t>(name)) {
        named.push_back(static_cast<Value>(codes.at(code, named.size())));
      }
      fill(std::move(named));
    } else if constexpr (std::is_same_v<Value, std::string>) {
      fill(group.read_strings(name));
    } else {
      fill(group.read<Value>(name));
    }
  });
  if (!with_samples) return;
  const auto begin = group.read<std::int64_t>("sample_begin");
  const auto samples = group.read<float>("samples_s");
  require_size(begin, count, place + "/sample_begin");
  for (std::size_t r = 0; r < count; ++r) {
    const auto from = begin[r];
    const auto to = r + 1 < count ? begin[r + 1] : static_cast<std::int64_t>(samples.size());
    if (from < 0 || from > to || to > static_cast<std::int64_t>(samples.size())) {
      throw DataError(fmt::format("{}: row {}: sample_begin {} is out of order", place, r, from));
    }
    rows[first + r].samples_s.assign(samples.begin() + from, samples.begin() + to);
  }
}

}  // namespace

void write_corpus(const Corpus& corpus, const fs::path& path) {
  h5::File file = h5::File::create(path.string());
  file.set_attribute("schema", schema_name);
  file.set_attribute("schema_version", std::int64_t{corpus_schema_version});
  file.set_attribute("Conventions", "CF-1.8");
  file.set_attribute("history", history_text(corpus.history));

  for (const Operator* op : operators()) {
    const RowPointers rows = sorted_rows(corpus, *op);
    if (!rows.empty()) write_operator(file.create_group(std::string(op->name)), *op, rows);
  }

  h5::Group devices = file.create_group("devices");
  write_devices(devices, corpus.devices);

  const auto text = [&](h5::Group& group, const auto& records, const char* name, auto get) {
    const std::vector<std::string> values = column_of(records, get);
    group.write_strings(name, values, row_dimension);
  };
  const auto facts_json = [](const auto& record) { return nlohmann::json(record.facts).dump(); };
  h5::Group environments = file.create_group("environments");
  environments.create_dimension(row_dimension, corpus.environments.size());
  text(environments, corpus.environments, "id", [](const Environment& e) { return e.id(); });
  text(environments, corpus.environments, "facts_json", facts_json);
  h5::Group runs = file.create_group("runs");
  runs.create_dimension(row_dimension, corpus.runs.size());
  text(runs, corpus.runs, "id", [](const Run& r) { return r.id; });
  text(runs, corpus.runs, "facts_json", facts_json);
  h5::Group sweeps = file.create_group("sweeps");
  sweeps.create_dimension(row_dimension, corpus.sweeps.size());
  text(sweeps, corpus.sweeps, "id", [](const SweepRecord& s) { return s.id; });
  text(sweeps, corpus.sweeps, "name", [](const SweepRecord& s) { return s.name; });
  text(sweeps, corpus.sweeps, "text", [](const SweepRecord& s) { return s.text; });

  replace_with_digest(path, file.bytes());
}

fs::path corpus_file(const fs::path& path) {
  if (!fs::is_directory(path)) return path;
  const fs::path file = path / "corpus.h5";
  if (!fs::exists(file)) {
    throw EnvironmentError(
        fmt::format("{0}: no corpus.h5 yet: 'forecost corpus merge {0} -o {1}' makes it from "
                    "the journals",
                    path.string(), file.string()));
  }
  return file;
}

bool is_corpus(const fs::path& file) { return h5::schema_of(file) == schema_name; }

Corpus read_corpus(const fs::path& file_or_run_directory, bool with_samples) {
  const fs::path path = corpus_file(file_or_run_directory);
  const std::string name = path.string();
  const h5::File file = h5::File::of_bytes(read_verified(path), name);
  if (!file.has_attribute("schema") || file.string_attribute("schema") != schema_name) {
    throw DataError(
        fmt::format("{}: not a corpus: the root attribute schema is not '{}'", name, schema_name));
  }
  const std::int64_t schema = file.int_attribute("schema_version");
  if (schema != corpus_schema_version) {
    throw DataError(
        fmt::format("{}: schema version {}, but forecost {} reads version {}: use the "
                    "forecost that wrote it",
                    name, schema, version, corpus_schema_version));
  }

  Corpus corpus;
  std::string history = file.string_attribute("history");
  while (!history.empty()) {
    const std::size_t end = std::min(history.find('\n'), history.size());
    corpus.history.push_back(history.substr(0, end));
    history.erase(0, end + 1);
  }
  corpus.devices = read_devices(file.group("devices"));
  const auto facts = [&](const char* group, std::size_t i, const std::string& text) {
    try {
      return nlohmann::json::parse(text).get<std::map<std::string, std::string>>();
    } catch (const nlohmann::json::exception& error) {
      throw DataError(fmt::format("{}: /{}: row {}: facts_json: {}", name, group, i, error.what()));
    }
  };
  const auto environments = file.group("environments").read_strings("facts_json");
  for (std::size_t i = 0; i < environments.size(); ++i) {
    corpus.environments.push_back({facts("environments", i, environments[i])});
  }
  const auto run_ids = file.group("runs").read_strings("id");
  const auto run_facts = file.group("runs").read_strings("facts_json");
  require_size(run_facts, run_ids.size(), name + ": /runs/facts_json");
  for (std::size_t i = 0; i < run_ids.size(); ++i) {
    corpus.runs.push_back({run_ids[i], facts("runs", i, run_facts[i])});
  }
  const auto sweep_ids = file.group("sweeps").read_strings("id");
  const auto sweep_names = file.group("sweeps").read_strings("name");
  const auto sweep_texts = file.group("sweeps").read_strings("text");
  require_size(sweep_names, sweep_ids.size(), name + ": /sweeps/name");
  require_size(sweep_texts, sweep_ids.size(), name + ": /sweeps/text");
  for (std::size_t i = 0; i < sweep_ids.size(); ++i) {
    corpus.sweeps.push_back({sweep_ids[i], sweep_names[i], sweep_texts[i]});
  }
  for (const std::string& group : file.groups()) {
    if (is_table(group)) continue;
    const auto known = operators();
    const auto op = std::find_if(known.begin(), known.end(), [&](const Operator* candidate) {
      return candidate->name == group;
    });
    if (op == known.end()) {  // its rows must not vanish from a merge
      throw DataError(
          fmt::format("{}: /{}: forecost {} does not know this operator: use a newer one", name,
                      group, version));
    }
    read_operator(file.group(group), **op, with_samples, corpus.rows);
  }
  return corpus;
}

}  // namespace forecost
