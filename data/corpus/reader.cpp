#include "data/corpus/reader.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/digest.hpp"
#include "core/file.hpp"
#include "core/hash.hpp"
#include "core/version.hpp"
#include "data/corpus/fields.hpp"
#include "data/corpus/layout.hpp"
#include "data/corpus/merge.hpp"
#include "data/h5/device_table.hpp"

namespace forecost {

namespace fs = std::filesystem;

std::set<std::string> layout::columns_of(const Operator& op, std::int64_t schema_version) {
  std::set<std::string> names{row_dimension, sample_dimension, sample_begin, samples};
  for (const ParameterInfo& parameter : op.parameters) names.emplace(parameter.name);
  for_each_field([&](const char* name, const char*, auto) {
    names.insert(column_name(name, schema_version));
  });
  return names;
}

Layer layout::smallest_layer(const Operator& op) {
  std::vector<std::int64_t> values;
  for (const ParameterInfo& parameter : op.parameters) {
    values.push_back(parameter.default_value.value_or(parameter.min));
  }
  return Layer::of_values(op, values);
}

namespace {

using namespace layout;

/// `path` is a file, or a run directory without one, whose journals are taken as if they were
/// merged.
h5::File open_corpus(const fs::path& path, std::string& sha256) {
  if (fs::is_directory(path)) {
    std::string bytes = corpus_bytes(merge_journals(path), path.string());
    sha256 = sha256_hex(bytes);
    return h5::File::of_bytes(std::move(bytes), path.string());
  }
  constexpr int most = 10;
  for (int attempt = 1;; ++attempt) {
    const auto open = open_verified(path, &sha256);
    try {
      return h5::File::of_descriptor(open->descriptor(), open, path.string());
    } catch (const DataError&) {
      // HDF5 wants a name; once it is open, replacing the file does no harm any more.
      if (!open->is_replaced() || attempt == most) throw;
    }
  }
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
  Codes(const h5::Dataset& dataset, std::span<const std::string_view> names) : names_(names) {
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
      throw DataError(fmt::format("{}: {} flag_values, but {} flag_meanings", dataset.where(),
                                  values.size(), listed_.size()));
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      listed_[i] = fmt::format("{}={}", values[i], listed_[i]);
    }
  }

  /// The index of the name in `names`; nullopt for one that is none of them.
  std::optional<std::int64_t> at(std::uint8_t code) const {
    const auto found = index_[code];
    return found < 0 ? std::nullopt : std::optional<std::int64_t>(found);
  }
  std::string unknown(std::uint8_t code) const {
    return fmt::format("code {} is none that forecost {} knows; the file lists {}, known are {}",
                       code, version, fmt::join(listed_, " "), fmt::join(names_, " "));
  }

 private:
  struct Table : std::array<std::int64_t, 256> {
    Table() { fill(-1); }
  };
  std::span<const std::string_view> names_;
  std::vector<std::string> listed_;
  Table index_;
};

/// The rows of one batch, and which of them are not to be visited.
struct Batch {
  std::size_t first = 0;
  std::span<Measurement> rows;
  std::vector<char> skip;
  /// Tells what is wrong with a row and has it skipped, or throws.
  std::function<void(std::size_t row, const std::string& what)> refuse;
};
/// Fills one field of the rows of a batch.
using Loader = std::function<void(Batch&)>;

template <class Get>
Loader loader_of(h5::Dataset dataset, Get get) {
  using Value = std::decay_t<decltype(get(std::declval<Measurement&>()))>;
  if constexpr (std::is_enum_v<Value>) {
    Codes codes(dataset, EnumNames<Value>::names);
    return [dataset = std::move(dataset), codes = std::move(codes), get,
            stored = std::vector<std::uint8_t>()](Batch& batch) mutable {
      stored.resize(batch.rows.size());
      dataset.read(batch.first, std::span(stored));
      for (std::size_t r = 0; r < stored.size(); ++r) {
        if (const auto value = codes.at(stored[r])) {
          get(batch.rows[r]) = static_cast<Value>(*value);
        } else {
          batch.refuse(r, fmt::format("{}: {}", dataset.name(), codes.unknown(stored[r])));
        }
      }
    };
  } else {
    return
        [dataset = std::move(dataset), get, stored = std::vector<Value>()](Batch& batch) mutable {
          stored.resize(batch.rows.size());
          if constexpr (std::is_same_v<Value, std::string>) {
            dataset.read_strings(batch.first, stored);
          } else {
            dataset.read(batch.first, std::span(stored));
          }
          for (std::size_t r = 0; r < stored.size(); ++r) get(batch.rows[r]) = stored[r];
        };
  }
}

/// Fills the layers from all parameter columns.
class LayerLoader {
 public:
  LayerLoader(const h5::Group& group, const Operator& op) : op_(&op) {
    for (const ParameterInfo& parameter : op.parameters) {
      Column& column = columns_.emplace_back();
      const std::string name(parameter.name);
      // Written before the parameter existed: everything was its default.
      if (!group.has_dataset(name) && parameter.default_value) continue;
      column.dataset = group.dataset(name);
      if (!parameter.value_names.empty())
        column.codes.emplace(*column.dataset, parameter.value_names);
    }
  }

  void operator()(Batch& batch) {
    std::vector<std::uint8_t> codes;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      Column& column = columns_[i];
      column.values.resize(batch.rows.size());
      if (!column.dataset) {
        std::fill(column.values.begin(), column.values.end(), *op_->parameters[i].default_value);
      } else if (!column.codes) {
        column.dataset->read(batch.first, std::span(column.values));
      } else {
        codes.resize(batch.rows.size());
        column.dataset->read(batch.first, std::span(codes));
        for (std::size_t r = 0; r < codes.size(); ++r) {
          const auto value = column.codes->at(codes[r]);
          column.values[r] = value.value_or(0);
          if (!value) {
            batch.refuse(
                r, fmt::format("{}: {}", column.dataset->name(), column.codes->unknown(codes[r])));
          }
        }
      }
    }
    std::vector<std::int64_t> values(columns_.size());
    for (std::size_t r = 0; r < batch.rows.size(); ++r) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = columns_[i].values[r];
      try {
        batch.rows[r].task.layer = Layer::of_values(*op_, values);
      } catch (const UsageError& error) {
        batch.refuse(r, error.what());
      }
    }
  }

 private:
  struct Column {
    std::optional<h5::Dataset> dataset;
    std::optional<Codes> codes;
    std::vector<std::int64_t> values;
  };
  const Operator* op_;
  std::vector<Column> columns_;
};

/// Fills the raw samples.
class SampleLoader {
 public:
  SampleLoader(const h5::Group& group, std::size_t count)
      : begins_(group.dataset(sample_begin)),
        samples_(group.dataset(samples)),
        place_(group.where()),
        count_(count) {}

  void operator()(Batch& batch) {
    const auto total = static_cast<std::int64_t>(samples_.size());
    // One more than rows: where the last one ends.
    std::vector<std::int64_t> begin(batch.rows.size() + 1, total);
    const std::size_t stored = std::min(begin.size(), count_ - batch.first);
    begins_.read(batch.first, std::span(begin).first(stored));
    for (std::size_t r = 0; r < batch.rows.size(); ++r) {
      if (begin[r] < 0 || begin[r] > begin[r + 1] || begin[r + 1] > total) {
        throw DataError(fmt::format("{}: row {}: sample_begin {} is out of order", place_,
                                    batch.first + r, begin[r]));
      }
    }
    std::vector<float> values(static_cast<std::size_t>(begin.back() - begin.front()));
    samples_.read(static_cast<std::size_t>(begin.front()), std::span(values));
    for (std::size_t r = 0; r < batch.rows.size(); ++r) {
      batch.rows[r].samples_s.assign(values.begin() + (begin[r] - begin.front()),
                                     values.begin() + (begin[r + 1] - begin.front()));
    }
  }

 private:
  h5::Dataset begins_, samples_;
  std::string place_;
  std::size_t count_;
};

std::vector<Loader> loaders_of(const h5::Group& group, const Operator& op, std::size_t count,
                               const std::set<std::string>& columns, std::int64_t schema_version) {
  std::vector<Loader> loaders;
  if (columns.contains("layer")) loaders.emplace_back(LayerLoader(group, op));
  for_each_field([&](const char* name, const char*, auto get) {
    const std::string stored = column_name(name, schema_version);
    // Written before the field existed: its default stays.
    if (!columns.contains(name) || !group.has_dataset(stored)) return;
    loaders.push_back(loader_of(group.dataset(stored), get));
  });
  if (columns.contains(samples)) loaders.emplace_back(SampleLoader(group, count));
  return loaders;
}

}  // namespace

fs::path corpus_file(const fs::path& path) {
  const fs::path file = path / "corpus.h5";
  return fs::is_directory(path) && fs::exists(file) ? file : path;
}

bool is_corpus(const fs::path& file) {
  fs::path digest = file;
  digest += ".sha256";
  try {
    open_verified(file);
  } catch (const DataError&) {
    // One of ours that is damaged: reading it will say so, HDF5 might not survive it.
    if (fs::exists(digest)) return true;
  }
  return h5::schema_of(file) == schema_name;
}

void check_corpus_output(const fs::path& file) {
  check_output(file);
  if (fs::exists(file) && !is_corpus(file)) {
    throw UsageError(
        fmt::format("-o {}: it exists and is no corpus: name another file", file.string()));
  }
}

CorpusReader::CorpusReader(const fs::path& file_or_run_directory, const Problem& problem)
    : name_(corpus_file(file_or_run_directory).string()), file_(open_corpus(name_, sha256_)) {
  const auto tell = [&](const std::string& line) {
    if (!problem) throw DataError(line);
    problem(line);
  };
  if (!file_.has_attribute("schema") || file_.string_attribute("schema") != schema_name) {
    throw DataError(
        fmt::format("{}: not a corpus: the root attribute schema is not '{}'", name_, schema_name));
  }
  schema_version_ = file_.int_attribute("schema_version");
  if (schema_version_ < 1) {
    throw DataError(
        fmt::format("{}: schema version {}: there was none before 1", name_, schema_version_));
  }
  // The digest is of this file alone, so nothing may lie in another one.
  for (const std::string& link : file_.foreign()) tell(link);
  for (const std::string& name : file_.datasets()) {  // a merge would lose it
    tell(fmt::format("{}: /{}: a dataset, expected groups only: remove it", name_, name));
  }

  std::vector<std::string> known_names;
  for (const Operator* op : forecost::operators()) known_names.emplace_back(op->name);
  std::vector<std::string> groups;
  for (const std::string& group : file_.groups()) {
    if (!is_table(group)) groups.push_back(group);
  }
  for (const std::string& group : groups) {
    // Its rows must not vanish from a merge.
    if (std::find(known_names.begin(), known_names.end(), group) == known_names.end()) {
      tell(fmt::format(
          "{}: /{}: forecost {} does not know this operator: use a newer one (schema version {} in "
          "the file, {} here; operators in the file: {}; known: {})",
          name_, group, version, schema_version_, corpus_schema_version, fmt::join(groups, " "),
          fmt::join(known_names, " ")));
    }
  }
  for (const Operator* op : forecost::operators()) {
    const std::string group(op->name);
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) continue;
    check_columns(file_.group(group), *op, problem);
    operators_.push_back(op);
  }
  if (schema_version_ > corpus_schema_version) {
    tell(fmt::format(
        "{}: schema version {}, but forecost {} reads versions 1 to {}: use a newer one (operators "
        "in the file: {}; known: {})",
        name_, schema_version_, version, corpus_schema_version, fmt::join(groups, " "),
        fmt::join(known_names, " ")));
  }

  std::string history = file_.string_attribute("history");
  while (!history.empty()) {
    const std::size_t end = std::min(history.find('\n'), history.size());
    tables_.history.push_back(history.substr(0, end));
    history.erase(0, end + 1);
  }
  tables_.devices = read_devices(file_.group("devices"));
  const auto facts = [&](const char* group, std::size_t i, const std::string& text) {
    try {
      return nlohmann::json::parse(text).get<std::map<std::string, std::string>>();
    } catch (const nlohmann::json::exception& error) {
      throw DataError(
          fmt::format("{}: /{}: row {}: facts_json: {}", name_, group, i, error.what()));
    }
  };
  const auto environments = file_.group("environments").read_strings("facts_json");
  for (std::size_t i = 0; i < environments.size(); ++i) {
    tables_.environments.push_back({facts("environments", i, environments[i])});
  }
  if (schema_version_ >= 3) {
    const auto gangs = file_.group("groups").read_strings("facts_json");
    for (std::size_t i = 0; i < gangs.size(); ++i) {
      tables_.groups.push_back({facts("groups", i, gangs[i])});
    }
  }
  const auto run_ids = file_.group("runs").read_strings("id");
  const auto run_facts = file_.group("runs").read_strings("facts_json");
  require_size(run_facts, run_ids.size(), name_ + ": /runs/facts_json");
  for (std::size_t i = 0; i < run_ids.size(); ++i) {
    tables_.runs.push_back({run_ids[i], facts("runs", i, run_facts[i])});
  }
  const auto sweep_ids = file_.group("sweeps").read_strings("id");
  const auto sweep_names = file_.group("sweeps").read_strings("name");
  const auto sweep_texts = file_.group("sweeps").read_strings("text");
  require_size(sweep_names, sweep_ids.size(), name_ + ": /sweeps/name");
  require_size(sweep_texts, sweep_ids.size(), name_ + ": /sweeps/text");
  for (std::size_t i = 0; i < sweep_ids.size(); ++i) {
    tables_.sweeps.push_back({sweep_ids[i], sweep_names[i], sweep_texts[i]});
  }
}

void CorpusReader::check_columns(const h5::Group& group, const Operator& op,
                                 const Problem& problem) const {
  const auto tell = [&](const std::string& what) {
    const std::string line = fmt::format("{}: {}", group.where(), what);
    if (!problem) throw DataError(line);
    problem(line);
  };
  for (const std::string& link : group.foreign()) {
    if (!problem) throw DataError(link);
    problem(link);
  }
  for (const std::string& name : group.groups()) {
    tell(fmt::format("{}: a group, expected columns only: remove it", name));
  }
  const auto datasets = group.datasets();
  const std::set<std::string> stored(datasets.begin(), datasets.end());
  const std::set<std::string> known = columns_of(op, schema_version_);
  // A column that we do not know would vanish from a merge; one may be missing that a later schema
  // added, which its default then stands for.
  const bool all_known = std::includes(known.begin(), known.end(), stored.begin(), stored.end());
  std::set<std::string> required = known;
  std::erase_if(required, [](const std::string& name) { return is_sparse(name); });
  const bool all_there =
      std::includes(stored.begin(), stored.end(), required.begin(), required.end());
  if (!all_known || (!all_there && schema_version_ == corpus_schema_version)) {
    std::vector<std::string> unknown, missing;
    std::set_difference(stored.begin(), stored.end(), known.begin(), known.end(),
                        std::back_inserter(unknown));
    std::set_difference(required.begin(), required.end(), stored.begin(), stored.end(),
                        std::back_inserter(missing));
    tell(fmt::format(
        "its columns are not those of forecost {}: unknown: {}; missing: {}; use the forecost that "
        "wrote it, or remove what was added (schema version {} in the file, {} here; columns in "
        "the "
        "file: {}; known: {})",
        version, unknown.empty() ? "none" : fmt::format("{}", fmt::join(unknown, " ")),
        missing.empty() ? "none" : fmt::format("{}", fmt::join(missing, " ")), schema_version_,
        corpus_schema_version, fmt::join(stored, " "), fmt::join(known, " ")));
  }
  // A time in other units would be taken for seconds.
  for_each_field([&](const char* name, const char* units, auto) {
    if (*units == '\0' || !stored.contains(name)) return;
    const h5::Dataset dataset = group.dataset(name);
    const std::string said =
        dataset.has_attribute("units") ? dataset.string_attribute("units") : "";
    if (said != units) {
      tell(fmt::format("{}: units are '{}', expected '{}'", name, said, units));
    }
  });
  const std::size_t rows = group.dataset("median_s").size();
  for (const std::string& name : stored) {
    if (!known.contains(name) || name == sample_dimension || name == samples) continue;
    const std::size_t size = group.dataset(name).size();
    if (size != rows) {
      throw DataError(fmt::format("{}/{}: {} values, but the group has {} rows", group.where(),
                                  name, size, rows));
    }
  }
}

std::vector<std::string> CorpusReader::all_columns() {
  std::vector<std::string> names{"layer"};
  for_each_field([&](const char* name, const char*, auto) { names.emplace_back(name); });
  names.emplace_back(samples);
  return names;
}

std::size_t CorpusReader::rows(const Operator& op) const {
  const std::string group(op.name);
  return file_.has_group(group) ? file_.group(group).dataset("median_s").size() : 0;
}

std::size_t CorpusReader::rows() const {
  std::size_t count = 0;
  for (const Operator* op : operators_) count += rows(*op);
  return count;
}

void CorpusReader::scan(const Scan& scan,
                        const std::function<void(Measurement&, std::size_t)>& visit) const {
  const std::vector<std::string> known = all_columns();
  for (const auto* columns : {&scan.columns, &scan.where_columns}) {
    for (const std::string& column : *columns) {
      if (std::find(known.begin(), known.end(), column) == known.end()) {
        throw UsageError(unknown_name("column", column, known));
      }
    }
  }
  for (const Operator* op : operators_) {
    if (scan.op == nullptr || scan.op == op) scan_operator(*op, scan, visit);
  }
}

void CorpusReader::scan_operator(
    const Operator& op, const Scan& scan,
    const std::function<void(Measurement&, std::size_t)>& visit) const {
  const h5::Group group = file_.group(std::string(op.name));
  const std::size_t count = rows(op);
  const std::set<std::string> first_columns(scan.where_columns.begin(), scan.where_columns.end());
  std::set<std::string> other_columns;
  for (const std::string& column : scan.columns) {
    if (!first_columns.contains(column)) other_columns.insert(column);
  }
  const auto loaders = [&](const std::set<std::string>& columns) {
    return loaders_of(group, op, count, columns, schema_version_);
  };
  const std::vector<Loader> first_loaders = loaders(first_columns),
                            other_loaders = loaders(other_columns);

  std::vector<Measurement> rows(std::min(count, h5::rows_per_chunk),
                                Measurement{.task = {.layer = smallest_layer(op)}});
  for (std::size_t first = 0; first < count; first += h5::rows_per_chunk) {
    Batch batch;
    batch.first = first;
    batch.rows = std::span(rows).first(std::min(h5::rows_per_chunk, count - first));
    batch.skip.assign(batch.rows.size(), 0);
    batch.refuse = [&](std::size_t row, const std::string& what) {
      const std::string line = fmt::format("{}: row {}: {}", group.where(), first + row, what);
      if (!scan.problem) throw DataError(line);
      scan.problem(line);
      batch.skip[row] = 1;
    };
    for (const Loader& load : first_loaders) load(batch);
    if (scan.where) {
      bool any = false;
      for (std::size_t r = 0; r < batch.rows.size(); ++r) {
        if (batch.skip[r] == 0 && !scan.where(batch.rows[r])) batch.skip[r] = 1;
        any = any || batch.skip[r] == 0;
      }
      if (!any) continue;
    }
    for (const Loader& load : other_loaders) load(batch);
    for (std::size_t r = 0; r < batch.rows.size(); ++r) {
      if (batch.skip[r] == 0) visit(batch.rows[r], first + r);
    }
  }
}

Corpus read_corpus(const fs::path& file_or_run_directory, bool with_samples, int* schema_version) {
  const CorpusReader reader(file_or_run_directory);
  if (schema_version != nullptr) *schema_version = static_cast<int>(reader.schema_version());
  Corpus corpus = reader.tables();
  corpus.rows.reserve(reader.rows());
  CorpusReader::Scan all{.columns = CorpusReader::all_columns()};
  if (!with_samples) std::erase(all.columns, samples);
  reader.scan(all, [&](Measurement& row, std::size_t) { corpus.rows.push_back(std::move(row)); });
  return corpus;
}

}  // namespace forecost
