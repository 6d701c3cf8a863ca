#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <type_traits>
#include <unordered_set>

#include <fmt/format.h>

#include "core/units.hpp"
#include "data/corpus/corpus.hpp"
#include "data/corpus/fields.hpp"
#include "data/corpus/journal.hpp"
#include "data/corpus/merge.hpp"
#include "data/corpus/reader.hpp"
#include "data/corpus/row_key.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

bool positive(double value) { return std::isfinite(value) && value > 0; }

}  // namespace

std::string row_fault(const Measurement& row) {
  const TimingSummary& t = row.time;
  if (!row.task.layer.op().has(row.task.pass)) {
    return fmt::format("{} has no pass {}", row.task.layer.op().name, name_of(row.task.pass));
  }
  const bool trains = row.task.pass == Pass::update || row.task.pass == Pass::training_step;
  if (!trains && row.task.optimizer != Optimizer::none) {
    return fmt::format("pass {} with optimizer {}: expected none", name_of(row.task.pass),
                       name_of(row.task.optimizer));
  }
  if (row.replicate < 0) return fmt::format("replicate {} is negative", row.replicate);
  if (row.status != Status::ok && row.reason.empty()) {
    return fmt::format("status {} without a reason", name_of(row.status));
  }
  if (row.status == Status::ok && t.n < 1) return "status ok without samples";
  if (t.n > 0) {
    // An imported table may know the median only; of what was measured all are known.
    const bool measured = row.source_line == 0;
    for (const auto& [name, value] :
         {std::pair("min_s", t.min_s), std::pair("median_s", t.median_s),
          std::pair("max_s", t.max_s)}) {
      const bool unknown = std::isnan(value) && !measured && name != std::string_view("median_s");
      if (row.status == Status::ok && !unknown && !positive(value)) {
        return fmt::format("{} {} is not a positive finite time", name, value);
      }
      // Less than a clock of 10 GHz, more than a week: a wrong unit.
      if (row.status == Status::ok && positive(value) && (value < 1e-10 || value > 1e6)) {
        return fmt::format("{} {:g} s: expected 1e-10 to 1e6 s", name, value);
      }
    }
    std::vector<double> order{t.min_s, t.q1_s, t.median_s, t.q3_s, t.max_s};
    if (!measured) std::erase_if(order, [](double value) { return std::isnan(value); });
    const auto unordered = [](double a, double b) { return !(a <= b); };
    if (std::adjacent_find(order.begin(), order.end(), unordered) != order.end()) {
      return fmt::format("min, quartiles and max are not in order: {} {} {} {} {}", t.min_s, t.q1_s,
                         t.median_s, t.q3_s, t.max_s);
    }
    if (t.outliers < 0 || t.outliers > t.n) {
      return fmt::format("{} of {}", format_counted(t.outliers, "outlier"),
                         format_counted(t.n, "sample"));
    }
    if (!row.samples_s.empty() && static_cast<std::int64_t>(row.samples_s.size()) != t.n) {
      return fmt::format("{} raw samples, but sample_count is {}", row.samples_s.size(), t.n);
    }
  }
  if (std::any_of(row.samples_s.begin(), row.samples_s.end(),
                  [](float sample) { return !std::isfinite(sample) || sample <= 0; }) &&
      row.status == Status::ok) {
    return "a raw sample is not a positive finite time";
  }
  if (row.status == Status::ok && !row.samples_s.empty()) {
    const auto [least, most] = std::minmax_element(row.samples_s.begin(), row.samples_s.end());
    const auto differs = [](float sample, double summary) {
      return std::fabs(static_cast<double>(sample) - summary) > 1e-5 * summary;  // float32
    };
    if (differs(*least, t.min_s) || differs(*most, t.max_s)) {
      return fmt::format("raw samples from {:g} to {:g} s, but min_s {:g} and max_s {:g}", *least,
                         *most, t.min_s, t.max_s);
    }
  }
  // Times, phases and sizes: whatever has a unit is unknown or a quantity.
  std::string fault;
  visit_fields(row, [&](const char* name, const char* units, const auto& member) {
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, double>) {
      const bool sound = std::isnan(member) || (std::isfinite(member) && member >= 0);
      if (*units != '\0' && !sound && fault.empty()) {
        fault = fmt::format("{} {}: expected a number of at least 0, or NaN", name, member);
      }
    }
  });
  return fault;
}

namespace {

template <class Records, class Id>
std::set<std::string> ids_of(const Records& records, Id id, const char* table,
                             std::vector<std::string>& problems) {
  std::set<std::string> ids;
  for (const auto& record : records) {
    if (!ids.insert(id(record)).second) {
      problems.push_back(fmt::format("/{}: id {} is there twice", table, id(record)));
    }
  }
  return ids;
}

/// Looks at rows one by one, after the tables.
class Checker {
 public:
  /// A journal may hold a row again, and what the rows refer to; a corpus has everything `once`.
  Checker(const Corpus& tables, const fs::path& file, bool once, std::vector<std::string>& problems)
      : file_(file.string()), once_(once), problems_(problems) {
    std::vector<std::string> twice;
    devices_ = ids_of(
        tables.devices, [](const Device& d) { return d.id(); }, "devices", twice);
    environments_ = ids_of(
        tables.environments, [](const Environment& e) { return e.id(); }, "environments", twice);
    groups_ = ids_of(
        tables.groups, [](const GangRecord& g) { return g.id(); }, "groups", twice);
    runs_ = ids_of(
        tables.runs, [](const Run& r) { return r.id; }, "runs", twice);
    if (once) {
      for (const std::string& problem : twice) problems_.push_back(file_ + ": " + problem);
    }
    for (const Device& device : tables.devices) class_of_[device.id()] = device.device_class;
  }

  /// `index` counts the rows of its operator.
  void row(const Measurement& row, std::size_t index) {
    const auto complain = [&](const std::string& what) {
      problems_.push_back(
          fmt::format("{}: /{}: row {}: {}", file_, row.task.layer.op().name, index, what));
    };
    if (const std::string fault = row_fault(row); !fault.empty()) complain(fault);
    const auto dangling = [&](const char* column, const std::string& id, const auto& known) {
      if (!known.contains(id)) complain(fmt::format("{} '{}' is not in its table", column, id));
    };
    dangling("device_id", row.device_id, devices_);
    dangling("environment_id", row.environment_id, environments_);
    dangling("run_id", row.run_id, runs_);
    if (!row.group_id.empty()) dangling("group_id", row.group_id, groups_);
    const auto device = class_of_.find(row.device_id);
    if (device != class_of_.end() && device->second != row.device_class) {
      complain(fmt::format("device_class '{}', but its device {} is of class '{}'",
                           row.device_class, row.device_id, device->second));
    }
    if (!once_) return;
    // A failure that is later than the ok row of its key stands beside it.
    const bool ok = row.status == Status::ok;
    if (!(ok ? ok_keys_ : failure_keys_).insert(row_key_hash(row)).second) {
      complain(fmt::format("the row key is there twice with status {}: {}", ok ? "ok" : "failure",
                           row_key(row)));
    }
  }

 private:
  std::string file_;
  bool once_;
  std::vector<std::string>& problems_;
  std::set<std::string> devices_, environments_, groups_, runs_;
  std::map<std::string, std::string> class_of_;
  std::unordered_set<Hash128, HashOfHash128> ok_keys_, failure_keys_;
};

void validate_journal(const fs::path& file, std::vector<std::string>& problems) {
  const Corpus corpus = read_journal(file, &problems);
  Checker checker(corpus, file, false, problems);
  std::map<const Operator*, std::size_t> rows;
  for (const Measurement& row : corpus.rows) checker.row(row, rows[&row.task.layer.op()]++);
}

}  // namespace

std::vector<std::string> validate_corpus(const fs::path& file) {
  std::vector<std::string> problems;
  const auto tell = [&](const std::string& line) { problems.push_back(line); };
  try {
    const CorpusReader reader(file, tell);
    Checker checker(reader.tables(), file, true, problems);
    CorpusReader::Scan scan{.columns = CorpusReader::all_columns(), .problem = tell};
    reader.scan(scan, [&](Measurement& row, std::size_t index) { checker.row(row, index); });
  } catch (const DataError& error) {  // nothing more can be read
    problems.emplace_back(error.what());
  }
  return problems;
}

std::vector<std::string> validate_run_directory(const fs::path& run_directory) {
  const auto journals = journals_of(run_directory);
  const fs::path corpus = run_directory / "corpus.h5";
  const bool has_corpus = fs::exists(corpus);
  if (journals.empty() && !has_corpus) {
    return {no_run_directory(run_directory)};
  }
  std::vector<std::string> problems;
  for (const fs::path& file : journals) validate_journal(file, problems);
  if (has_corpus) {
    const auto more = validate_corpus(corpus);
    problems.insert(problems.end(), more.begin(), more.end());
  }
  return problems;
}

}  // namespace forecost
