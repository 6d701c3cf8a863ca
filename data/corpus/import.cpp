#include "data/corpus/import.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/hash.hpp"
#include "data/corpus/import_expression.hpp"
#include "data/corpus/row_key.hpp"
#include "data/layer_draft.hpp"
#include "data/text.hpp"
#include "data/toml_layer.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

using Cells = std::span<const std::string_view>;

/// Thrown where a row cannot be imported; the row's place is not known here.
struct Refusal {
  std::string column, value, reason, kind;
};

/// What is wrong with a row as a whole. Figures are left out of the kind, "a kernel of #", but not
/// those of what was expected instead of a value: "median_s # s: expected 1e-10 to 1e6 s".
Refusal refuse_row(std::string_view reason) {
  std::string kind;
  const std::size_t expected = std::min(reason.find(": expected "), reason.size());
  for (std::size_t i = 0; i < expected;) {
    std::size_t end = i;
    while (end < expected && (std::isalnum(static_cast<unsigned char>(reason[end])) != 0 ||
                              reason[end] == '.' || reason[end] == '_')) {
      ++end;
    }
    if (end == i) {
      kind += reason[i++];
      continue;
    }
    const std::string_view word = reason.substr(i, end - i);
    kind += std::isdigit(static_cast<unsigned char>(word[0])) != 0 ? "#" : word;
    i = end;
  }
  return {"", "", std::string(reason), kind.append(reason.substr(expected))};
}

std::string_view without_spaces(std::string_view text) {  // a field in quotes may have them
  const std::size_t from = text.find_first_not_of(' ');
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(' ') - from + 1);
}

/// NaN of "nan"; nullopt of what is no number, infinite or too large for a double.
std::optional<double> number_in(std::string_view text) {
  text = without_spaces(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || std::isinf(value)) {
    return std::nullopt;
  }
  return value;
}

/// What is wrong with a cell that has no number_in() it.
std::string_view no_number(std::string_view cell) {
  const std::size_t comma = cell.find(',');
  std::string with_point(cell);
  if (comma != std::string_view::npos) with_point[comma] = '.';
  return comma != std::string_view::npos && number_in(with_point)
             ? "expected a decimal point, found a comma"
             : "expected a finite decimal number, such as 1.5 or 2e-3";
}

/// The columns of one file.
class Header {
 public:
  Header(Cells names, std::string place) : place_(std::move(place)) {
    for (const std::string_view name : names) names_.emplace_back(without_spaces(name));
  }
  std::size_t size() const { return names_.size(); }
  const std::string& name(std::size_t column) const { return names_[column]; }
  std::size_t column(const std::string& name, const std::string& asked_by) const {
    return one(name, asked_by, [&](const std::string& other) { return other == name; });
  }
  std::size_t column_of_identifier(const std::string& name, const std::string& asked_by) const {
    return one(name, asked_by,
               [&](const std::string& other) { return identifier_of(other) == name; });
  }

 private:
  template <class Matches>
  std::size_t one(const std::string& name, const std::string& asked_by,
                  const Matches& matches) const {
    const auto found = std::find_if(names_.begin(), names_.end(), matches);
    if (found == names_.end()) {
      std::vector<std::string> known;
      for (const std::string& other : names_) known.push_back(shown(other));
      throw DataError(fmt::format("{}: {}, asked for by {}", place_,
                                  unknown_name("column", shown(name), known), asked_by));
    }
    if (std::find_if(found + 1, names_.end(), matches) != names_.end()) {
      throw DataError(fmt::format("{}: expected one column '{}' (asked for by {}), found two",
                                  place_, name, asked_by));
    }
    return static_cast<std::size_t>(found - names_.begin());
  }

  std::string place_;
  std::vector<std::string> names_;
};

/// An expression and the columns that it reads.
class BoundExpression {
 public:
  BoundExpression(const std::string& text, const std::string& place, const Header& header)
      : text_(text), expression_(text), header_(&header) {
    for (const auto& name : expression_.variables()) {
      columns_.push_back(header.column_of_identifier(name, place));
    }
  }
  /// An empty cell is NaN.
  double operator()(Cells cells) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string_view cell = cells[columns_[i]];
      const auto number = cell.empty() ? std::nan("") : number_in(cell);
      if (!number) refuse(header_->name(columns_[i]), cell, no_number(cell));
      expression_.values()[i] = *number;
    }
    return expression_();
  }
  [[noreturn]] void refuse_value(double value, std::string_view expected) const {
    const std::string text = shown(text_, expression_shown);
    throw Refusal{"", "", fmt::format("expression '{}' = {}: {}", text, value, expected),
                  fmt::format("expression '{}': {}", text, expected)};
  }
  [[noreturn]] static void refuse(const std::string& column, std::string_view value,
                                  std::string_view expected) {
    throw Refusal{column, std::string(value), std::string(expected),
                  fmt::format("column '{}': {}", column, expected)};
  }

 private:
  std::string text_;
  Expression expression_;
  const Header* header_;
  std::vector<std::size_t> columns_;
};

/// A source and the column or expression it reads in one file.
template <class Source>
class Bound {
 public:
  Bound(const Source& source, const Header& header) : source_(&source), header_(&header) {
    if (source.constant) return;
    if (!source.expression.empty()) {
      expression_.emplace(source.expression, source.place, header);
    } else {
      column_ = header.column(source.column, source.place);
    }
  }

  bool is_constant() const { return source_->constant.has_value(); }
  /// The text that the value follows from alone, if it is of a column.
  std::optional<std::string_view> cell(Cells cells) const {
    if (is_constant() || expression_) return std::nullopt;
    return cells[column_];
  }

  [[noreturn]] void refuse_cell(Cells cells, std::string_view expected) const {
    if (const auto text = cell(cells)) refuse(*text, expected);
    const std::string text = shown(source_->expression, expression_shown);
    const std::string reason = fmt::format(
        "{}: {}", expression_ ? fmt::format("expression '{}'", text) : "constant", expected);
    throw Refusal{"", "", reason, reason};
  }

  auto operator()(Cells cells) {
    if (source_->constant) return *source_->constant;
    if (expression_) return of_expression(*source_, (*expression_)(cells));
    const std::string_view cell = cells[column_];
    if (source_->values.empty()) return parse(*source_, cell);
    for (const auto& [text, value] : source_->values) {
      if (text == cell) return value;
    }
    if (source_->otherwise) return *source_->otherwise;
    std::string known;
    for (const auto& [text, value] : source_->values) {
      known += fmt::format("{}'{}'", known.empty() ? "" : ", ", text);
    }
    refuse(cell, fmt::format("expected {}{}", source_->values.size() == 1 ? "" : "one of ", known));
  }

 private:
  [[noreturn]] void refuse(std::string_view cell, std::string_view expected) const {
    BoundExpression::refuse(header_->name(column_), cell, expected);
  }

  static std::string range(const ImportInteger& source) {
    return fmt::format("expected an integer {} to {}", source.min, source.max);
  }
  std::int64_t parse(const ImportInteger& source, std::string_view cell) const {
    const std::string_view text = without_spaces(cell);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    bool ok = error == std::errc() && end == text.data() + text.size() && !text.empty();
    if (!ok) {  // 3.0 is one too, since tables with gaps are often written so
      const double number = number_in(text).value_or(std::nan(""));
      ok = std::trunc(number) == number && std::fabs(number) < 0x1p53;
      if (ok) value = static_cast<std::int64_t>(number);
    }
    if (!ok || value < source.min || value > source.max) refuse(cell, range(source));
    return value;
  }
  std::int64_t of_expression(const ImportInteger& source, double value) const {
    if (!(std::trunc(value) == value && value >= static_cast<double>(source.min) &&
          value <= static_cast<double>(source.max))) {
      expression_->refuse_value(value, range(source));
    }
    return static_cast<std::int64_t>(value);
  }

  /// In our unit; NaN of an empty cell.
  double parse(const ImportNumber& source, std::string_view cell) const {
    if (cell.empty()) return std::nan("");
    const auto number = number_in(cell);
    if (!number) refuse(cell, no_number(cell));
    if (*number < 0) refuse(cell, "expected a number of at least 0");
    return *number / source.divisor * source.factor;
  }
  double of_expression(const ImportNumber& source, double value) const {
    if (value < 0 || std::isinf(value)) {
      expression_->refuse_value(value, "expected a finite number of at least 0");
    }
    return value / source.divisor * source.factor;
  }

  std::string parse(const ImportText&, std::string_view cell) const {
    if (!is_line(cell)) refuse(cell, "expected UTF-8 text of one line");
    return std::string(cell);
  }
  std::string of_expression(const ImportText&, double) const {
    throw std::logic_error("a text has no expression");
  }

  const Source* source_;
  const Header* header_;
  std::size_t column_ = 0;
  std::optional<BoundExpression> expression_;
};

/// What a combination of texts stands for is computed once.
template <class Value>
class Cache {
 public:
  /// compute() gives the value of a new key; what it throws is not kept.
  template <class Compute>
  const Value& operator()(const std::string& key, const Compute& compute) {
    if (last_ != nullptr && last_->first == key) return last_->second;
    const auto found = values_.find(key);
    last_ = found != values_.end() ? &*found : &*values_.emplace(key, compute()).first;
    return last_->second;
  }

 private:
  std::unordered_map<std::string, Value> values_;  // its nodes stay where they are
  const std::pair<const std::string, Value>* last_ = nullptr;
};

/// A mapping and the columns of one file.
struct BoundMapping {
  struct Layer {
    const ImportLayer* mapping;
    std::vector<Bound<ImportInteger>> parameters;
    std::optional<Bound<ImportInteger>> padding;
  };
  struct Filter {
    std::size_t column;
    const std::vector<std::string>* values;
  };

  BoundMapping(const ImportMapping& m, const Header& header)
      : op(m.op, header),
        pass(m.pass, header),
        dtype(m.dtype, header),
        optimizer(m.optimizer, header),
        cache(m.cache, header),
        policy(m.policy, header),
        protocol(m.protocol, header),
        status(m.status, header) {
    const auto bind = [&](const auto& source, auto& bound) {
      if (source) bound.emplace(*source, header);
    };
    for (const ImportLayer& layer : m.layers) {
      Layer& out = layers.emplace_back();
      out.mapping = &layer;
      for (const auto& parameter : layer.parameters) {
        out.parameters.emplace_back(parameter.value, header);
      }
      bind(layer.padding, out.padding);
    }
    for (const auto& quantity : m.quantities) quantities.emplace_back(quantity.value, header);
    for (const auto& count : m.counts) counts.emplace_back(count.value, header);
    for (const auto& [name, fact] : m.facts) facts.emplace_back(fact, header);
    for (const auto& filter : m.filters) {
      filters.push_back({header.column(filter.column, filter.place), &filter.values});
    }
    if (m.filter_expression) {
      filter_expression.emplace(m.filter_expression->text, m.filter_expression->place, header);
    }
    bind(m.implementation, implementation);
    bind(m.reason, reason);
    bind(m.device, device);
    bind(m.uuid, uuid);
    bind(m.host, host);
    bind(m.replicate, replicate);
  }

  Bound<ImportInteger> op, pass, dtype, optimizer, cache, policy, protocol, status;
  std::vector<Layer> layers;
  std::vector<Bound<ImportNumber>> quantities;
  std::vector<Bound<ImportInteger>> counts;
  std::vector<Bound<ImportText>> facts;
  std::vector<Filter> filters;
  std::optional<BoundExpression> filter_expression;
  std::optional<Bound<ImportText>> implementation, reason, uuid, host;
  std::optional<Bound<ImportInteger>> device, replicate;
  Cache<std::string> environment_ids;
  Cache<std::pair<std::string, std::string>> device_ids;  // class and id
};

}  // namespace

std::string RefusedRow::text() const {
  const std::string where =
      column.empty() ? "" : fmt::format("column '{}' = '{}': ", shown(column), shown(value));
  return fmt::format("{}:{}: {}{}", file, line, where, reason);
}

class Importer::Implementation {
 public:
  Implementation(ImportMapping mapping, ImportOptions options)
      : mapping_(std::move(mapping)), options_(std::move(options)) {
    if (!mapping_.device && !options_.device) {
      throw UsageError(
          fmt::format("{} does not tell the device: expected --device with a shipped "
                      "device or a device file",
                      mapping_.file));
    }
    if (mapping_.device && options_.device) {
      throw UsageError(fmt::format("{} tells the device ({}): leave --device out", mapping_.file,
                                   mapping_.device->place));
    }
    facts_["table"] = mapping_.name;
    if (!mapping_.has_median) facts_["statistic"] = "mean";
  }

  ImportCounts add(const fs::path& file, const std::function<void(Corpus)>& batch,
                   const std::function<void(std::size_t)>& expect) {
    const std::string text = read_text(file);
    file_ = file.string();
    const std::string digest = sha256_hex(text);
    run_id_ = "import-" + short_id(digest + "\n" + mapping_.text);
    const auto [before, is_new] = file_of_run_.try_emplace(run_id_, file_);
    if (!is_new) {
      throw UsageError(
          fmt::format("{}: the same content was given before, as {}", file_, before->second));
    }
    file_index_ = static_cast<std::uint32_t>(files_.size());
    files_.push_back(file_);
    counts_ = {};
    const auto lines = static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }));
    if (expect) expect(lines);
    // Chains of a full table cost more than all else of an import.
    rows_of_key_.reserve(rows_of_key_.size() + 2 * lines);
    std::optional<Header> header;
    std::optional<BoundMapping> bound;
    read_csv(text, file_, mapping_.csv, [&](const CsvRow& row) {
      if (!header) {
        header.emplace(row.fields, fmt::format("{}:{}", file_, row.line));
        bound.emplace(mapping_, *header);
        return;
      }
      ++counts_.rows;
      try {
        if (row.fields.size() != header->size()) {
          throw refuse_row(fmt::format("expected {} fields, as the first row has, found {}",
                                       header->size(), row.fields.size()));
        }
        add(row, *bound);
      } catch (const Refusal& refusal) {
        refuse(row, refusal);
      }
      constexpr std::size_t most = 128;  // 84 kB: stay in cache, and are no call of mmap()
      if (batch_.rows.size() == most) hand_out(batch);
    });
    if (!header) {
      throw DataError(fmt::format("{}:1: the file is empty: expected the names of columns", file_));
    }
    Run run{run_id_,
            {{"file", file.filename().string()},
             {"sha256", digest},
             {"mapping", mapping_.file},
             {"mapping_sha256", sha256_hex(mapping_.text)},
             {"rows", std::to_string(counts_.rows)},
             {"imported", std::to_string(counts_.imported)},
             {"refused", std::to_string(counts_.refused)},
             {"filtered", std::to_string(counts_.filtered)}}};
    if (!mapping_.source.empty()) run.facts["source"] = mapping_.source;
    if (!mapping_.licence.empty()) run.facts["licence"] = mapping_.licence;
    batch_.runs.push_back(std::move(run));
    hand_out(batch);
    return counts_;
  }

 private:
  void hand_out(const std::function<void(Corpus)>& batch) {
    const std::size_t rows = batch_.rows.size();
    batch(std::exchange(batch_, {}));
    batch_.rows.reserve(rows);
  }

  void refuse(const CsvRow& row, const Refusal& refusal) {
    ++counts_.refused;
    ++counts_.reasons[refusal.kind];
    RefusedRow refused{file_,         row.line,       refusal.column,
                       refusal.value, refusal.reason, refusal.kind};
    if (row.last_line > row.line) {  // a stray quote may have swallowed lines
      refused.reason += fmt::format(" (by its quotes, the row goes on to line {})", row.last_line);
    }
    if (options_.on_refused) options_.on_refused(refused);
    if (options_.strict) throw DataError(refused.text());
  }

  void add(const CsvRow& row, BoundMapping& bound) {
    const Cells cells = row.fields;
    if (!passes_filters(cells, bound)) {
      ++counts_.filtered;
      return;
    }
    batch_.rows.push_back({.task = task_of(cells, bound)});
    try {
      Measurement& out = batch_.rows.back();
      std::tie(out.device_class, out.device_id) = device_of(cells, bound);
      out.environment_id = environment_of(cells, bound);
      out.run_id = run_id_;
      out.source_line = row.line;
      read_fields(cells, bound, out);
      if (const std::string fault = row_fault(out); !fault.empty()) throw refuse_row(fault);
      number_row(cells, bound);
    } catch (const Refusal&) {
      batch_.rows.pop_back();
      throw;
    }
    ++counts_.imported;
  }

  static bool passes_filters(Cells cells, BoundMapping& bound) {
    for (const auto& filter : bound.filters) {
      const auto& values = *filter.values;
      if (std::find(values.begin(), values.end(), cells[filter.column]) == values.end()) {
        return false;
      }
    }
    if (!bound.filter_expression) return true;
    const double value = (*bound.filter_expression)(cells);
    if (!std::isfinite(value)) {
      bound.filter_expression->refuse_value(value, "expected a finite number to filter by");
    }
    return value != 0;
  }

  Task task_of(Cells cells, BoundMapping& bound) const {
    BoundMapping::Layer& layer = bound.layers[static_cast<std::size_t>(bound.op(cells))];
    const ImportLayer& mapping = *layer.mapping;
    std::array<std::int64_t, Layer::max_parameters> values{};
    std::copy(mapping.defaults.begin(), mapping.defaults.end(), values.begin());
    const std::span<std::int64_t> used(values.data(), mapping.defaults.size());
    for (std::size_t i = 0; i < layer.parameters.size(); ++i) {
      const std::int64_t value = layer.parameters[i](cells);
      for (const std::size_t index : mapping.parameters[i].indices) used[index] = value;
    }
    try {
      complete(*mapping.op, mapping.given, used);
      if (layer.padding) {
        const std::int64_t padding = (*layer.padding)(cells);
        const bool same = padding == ImportLayer::same_padding;
        apply_padding(*mapping.op, {.same = same, .each = same ? 0 : padding}, used);
      }
      return {Layer::of_values(*mapping.op, used),
              static_cast<Pass>(bound.pass(cells)),
              static_cast<DType>(bound.dtype(cells)),
              static_cast<Optimizer>(bound.optimizer(cells)),
              static_cast<CacheState>(bound.cache(cells)),
              static_cast<AlgorithmPolicy>(bound.policy(cells))};
    } catch (const UsageError& error) {  // parameters that contradict each other
      throw refuse_row(error.what());
    }
  }

  /// Appends what the value follows from to the key.
  template <class Source>
  void key_by(Bound<Source>& source, Cells cells) {
    if (const auto cell = source.cell(cells)) key_.append(*cell).append(1, '\0');
  }

  const std::pair<std::string, std::string>& device_of(Cells cells, BoundMapping& bound) {
    key_.clear();
    if (bound.device) key_by(*bound.device, cells);
    if (bound.uuid) key_by(*bound.uuid, cells);
    if (bound.host) key_by(*bound.host, cells);
    return bound.device_ids(key_, [&] {
      Device device = bound.device
                          ? mapping_.devices[static_cast<std::size_t>((*bound.device)(cells))]
                          : *options_.device;
      if (bound.uuid) device.uuid = (*bound.uuid)(cells);
      if (bound.host) device.host = (*bound.host)(cells);
      const std::string id = device.id();
      if (devices_.insert(id).second) batch_.devices.push_back(device);
      return std::make_pair(device.device_class, id);
    });
  }

  const std::string& environment_of(Cells cells, BoundMapping& bound) {
    key_.clear();
    for (auto& fact : bound.facts) key_by(fact, cells);
    return bound.environment_ids(key_, [&] {
      Environment environment{facts_};
      for (std::size_t i = 0; i < bound.facts.size(); ++i) {
        const std::string value = bound.facts[i](cells);
        if (!value.empty()) environment.facts[mapping_.facts[i].first] = value;
      }
      for (const auto& [name, value] : options_.facts) environment.facts[name] = value;
      const std::string id = environment.id();
      if (environments_.insert(id).second) batch_.environments.push_back(environment);
      return id;
    });
  }

  void read_fields(Cells cells, BoundMapping& bound, Measurement& out) const {
    out.protocol = static_cast<Protocol>(bound.protocol(cells));
    out.status = static_cast<Status>(bound.status(cells));
    for (std::size_t i = 0; i < bound.quantities.size(); ++i) {
      mapping_.quantities[i].of(out) = bound.quantities[i](cells);
    }
    if (!mapping_.has_median) out.time.median_s = out.time.mean_s;
    if (out.status == Status::ok && !(out.time.median_s > 0)) refuse_time(cells, bound);
    if (!std::isnan(out.time.median_s)) {
      out.time.n = 1;  // unless told
      for (std::size_t i = 0; i < bound.counts.size(); ++i) {
        mapping_.counts[i].of(out) = bound.counts[i](cells);
      }
    }
    if (bound.implementation) out.implementation = (*bound.implementation)(cells);
    if (out.status == Status::ok) return;
    if (bound.reason) out.reason = (*bound.reason)(cells);
    if (!out.reason.empty()) return;
    out.reason = fmt::format("{} in the imported table", name_of(out.status));
  }

  [[noreturn]] void refuse_time(Cells cells, const BoundMapping& bound) const {
    const std::string_view name = mapping_.has_median ? "median_s" : "mean_s";
    for (std::size_t i = 0; i < bound.quantities.size(); ++i) {
      if (mapping_.quantities[i].name != name) continue;
      bound.quantities[i].refuse_cell(cells, "expected a time above 0");
    }
    throw std::logic_error("a mapping without a time");
  }

  /// Tells the last row from others with its key.
  void number_row(Cells cells, BoundMapping& bound) {
    Measurement& row = batch_.rows.back();
    if (bound.replicate) row.replicate = (*bound.replicate)(cells);
    const auto [first, is_first] =
        rows_of_key_.try_emplace(row_key_hash(row), FirstRow{file_index_, row.source_line, 1});
    if (is_first) return;
    if (mapping_.repeats == ImportMapping::Repeats::in_order) {
      row.replicate = first->second.rows++;
      return;
    }
    Refusal refusal = refuse_row(
        fmt::format("repeats the task, device, environment and protocol of {}:{}; [repeats] of the "
                    "mapping can number such rows",
                    files_[first->second.file], first->second.line));
    refusal.kind = "repeats the task, device, environment and protocol of an earlier row";
    throw refusal;
  }

  ImportMapping mapping_;
  ImportOptions options_;
  std::map<std::string, std::string> facts_;
  std::vector<std::string> files_;
  std::unordered_map<std::string, std::string> file_of_run_;
  struct FirstRow {
    std::uint32_t file;
    std::int64_t line, rows;  // how many have its key
  };
  std::unordered_map<Hash128, FirstRow, HashOfHash128> rows_of_key_;
  std::unordered_set<std::string> devices_, environments_;  // ids of those handed out
  Corpus batch_;
  std::uint32_t file_index_ = 0;
  std::string file_, run_id_, key_;  // of the file and row in hand
  ImportCounts counts_;
};

Importer::Importer(ImportMapping mapping, ImportOptions options)
    : implementation_(std::make_unique<Implementation>(std::move(mapping), std::move(options))) {}
Importer::~Importer() = default;
ImportCounts Importer::add(const fs::path& file, const std::function<void(Corpus)>& batch,
                           const std::function<void(std::size_t)>& expect) {
  return implementation_->add(file, batch, expect);
}

}  // namespace forecost
