#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/digest.hpp"
#include "data/corpus/corpus.hpp"
#include "data/corpus/fields.hpp"
#include "data/corpus/layout.hpp"
#include "data/corpus/row_key.hpp"
#include "data/h5/device_table.hpp"
#include "data/h5/h5.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

using namespace layout;
using RowPointers = std::vector<const Measurement*>;

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

/// The rows of one operator by key, a failure before the ok row of its key, so that the same rows
/// give the same file, whichever rank or run measured them and in whichever order they were merged.
RowPointers sorted_rows(const Corpus& corpus, const Operator& op) {
  RowPointers rows;
  for (const Measurement& row : corpus.rows) {
    if (&row.task.layer.op() == &op) rows.push_back(&row);
  }
  const auto before = [](const Measurement* a, const Measurement* b) { return key_less(*a, *b); };
  // A corpus that was read and added to is mostly in order.
  if (!std::is_sorted(rows.begin(), rows.end(), before)) {
    std::stable_sort(rows.begin(), rows.end(), before);
  }
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

/// One column that is written a batch of rows at a time: rows lie anywhere in memory, and a batch
/// of them is still in the cache when the next column asks for it.
using ColumnWriter = std::function<void(std::size_t first, std::span<const Measurement* const>)>;

template <class T, class Get>
ColumnWriter writer_of(h5::Dataset dataset, Get get) {
  return [dataset = std::move(dataset), get, values = std::vector<T>()](
             std::size_t first, std::span<const Measurement* const> rows) mutable {
    values.clear();
    for (const Measurement* row : rows) values.push_back(static_cast<T>(get(*row)));
    if constexpr (std::is_same_v<T, std::string>) {
      dataset.write_strings(first, values);
    } else {
      dataset.write(first, std::span<const T>(values));
    }
  };
}

/// Whether a sparse field has more than its default.
template <class T>
bool is_known(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return !std::isnan(value);
  } else {
    return value != T{};
  }
}

void write_operator(h5::Group group, const Operator& op, const RowPointers& rows) {
  group.create_dimension(row_dimension, rows.size());
  std::vector<ColumnWriter> columns;
  for (std::size_t i = 0; i < op.parameters.size(); ++i) {
    const ParameterInfo& parameter = op.parameters[i];
    const std::string name(parameter.name);
    const auto get = [i](const Measurement& row) { return row.task.layer.values()[i]; };
    if (parameter.value_names.empty()) {
      columns.push_back(writer_of<std::int64_t>(
          group.create_column<std::int64_t>(name, rows.size(), row_dimension), get));
    } else {
      auto dataset = group.create_column<std::uint8_t>(name, rows.size(), row_dimension);
      describe_names(dataset, parameter.value_names);
      columns.push_back(writer_of<std::uint8_t>(std::move(dataset), get));
    }
  }
  for_each_field([&](const char* name, const char* units, auto get) {
    using Value = std::decay_t<decltype(get(*rows.front()))>;
    if (is_sparse(name) && std::none_of(rows.begin(), rows.end(), [&](const Measurement* row) {
          return is_known(get(*row));
        })) {
      return;
    }
    if constexpr (std::is_enum_v<Value>) {
      auto dataset = group.create_column<std::uint8_t>(name, rows.size(), row_dimension);
      describe_names(dataset, EnumNames<Value>::names);
      columns.push_back(writer_of<std::uint8_t>(std::move(dataset), get));
    } else if constexpr (std::is_same_v<Value, std::string>) {
      std::size_t width = 1;
      for (const Measurement* row : rows) width = std::max(width, get(*row).size());
      columns.push_back(writer_of<std::string>(
          group.create_string_column(name, rows.size(), width, row_dimension), get));
    } else {
      auto dataset = group.create_column<Value>(name, rows.size(), row_dimension);
      describe_units(dataset, units);
      columns.push_back(writer_of<Value>(std::move(dataset), get));
    }
  });

  std::size_t samples_count = 0;
  for (const Measurement* row : rows) samples_count += row->samples_s.size();
  auto begins = group.create_column<std::int64_t>(sample_begin, rows.size(), row_dimension);
  begins.set_attribute("long_name",
                       "index of the row's first sample; they end where the next row's begin");
  group.create_dimension(sample_dimension, samples_count);
  auto raw = group.create_column<float>(samples, samples_count, sample_dimension);
  describe_units(raw, "s");
  columns.push_back([begins, raw, sample = std::size_t{0}](
                        std::size_t first, std::span<const Measurement* const> batch) mutable {
    std::vector<std::int64_t> begin;
    std::vector<float> values;
    for (const Measurement* row : batch) {
      begin.push_back(static_cast<std::int64_t>(sample + values.size()));
      values.insert(values.end(), row->samples_s.begin(), row->samples_s.end());
    }
    begins.write(first, std::span<const std::int64_t>(begin));
    raw.write(sample, std::span<const float>(values));
    sample += values.size();
  });

  for (std::size_t first = 0; first < rows.size(); first += h5::rows_per_chunk) {
    const auto batch = std::span<const Measurement* const>(rows).subspan(
        first, std::min(h5::rows_per_chunk, rows.size() - first));
    for (const ColumnWriter& write : columns) write(first, batch);
  }
}

template <class Records, class Get>
void write_texts(h5::Group& group, const char* name, const Records& records, Get get) {
  std::vector<std::string> values;
  for (const auto& record : records) values.push_back(get(record));
  group.write_strings(name, values, row_dimension);
}

}  // namespace

std::string corpus_bytes(const Corpus& corpus, const std::string& name) {
  h5::File file = h5::File::create(name);
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

  const auto facts_json = [](const auto& record) { return nlohmann::json(record.facts).dump(); };
  h5::Group environments = file.create_group("environments");
  environments.create_dimension(row_dimension, corpus.environments.size());
  write_texts(environments, "id", corpus.environments, [](const Environment& e) { return e.id(); });
  write_texts(environments, "facts_json", corpus.environments, facts_json);
  h5::Group groups = file.create_group("groups");
  groups.create_dimension(row_dimension, corpus.groups.size());
  write_texts(groups, "id", corpus.groups, [](const GangRecord& g) { return g.id(); });
  write_texts(groups, "facts_json", corpus.groups, facts_json);
  h5::Group runs = file.create_group("runs");
  runs.create_dimension(row_dimension, corpus.runs.size());
  write_texts(runs, "id", corpus.runs, [](const Run& r) { return r.id; });
  write_texts(runs, "facts_json", corpus.runs, facts_json);
  h5::Group sweeps = file.create_group("sweeps");
  sweeps.create_dimension(row_dimension, corpus.sweeps.size());
  write_texts(sweeps, "id", corpus.sweeps, [](const SweepRecord& s) { return s.id; });
  write_texts(sweeps, "name", corpus.sweeps, [](const SweepRecord& s) { return s.name; });
  write_texts(sweeps, "text", corpus.sweeps, [](const SweepRecord& s) { return s.text; });

  return file.bytes();
}

void write_corpus(const Corpus& corpus, const fs::path& file) {
  replace_with_digest(file, corpus_bytes(corpus, file.string()));
}

}  // namespace forecost
