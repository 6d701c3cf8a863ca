#include "data/corpus/merge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <unordered_map>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "core/error.hpp"
#include "core/file.hpp"
#include "core/units.hpp"
#include "core/version.hpp"
#include "data/corpus/fields.hpp"
#include "data/corpus/journal.hpp"
#include "data/corpus/records.hpp"
#include "data/corpus/row_key.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

/// Below, equal to or above 0: an order of the values of a field, with NaN before all numbers.
template <class Value>
int compare(const Value& a, const Value& b) {
  if constexpr (std::is_floating_point_v<Value>) {
    if (std::isnan(a) || std::isnan(b))
      return static_cast<int>(std::isnan(b)) - static_cast<int>(std::isnan(a));
  }
  return a < b ? -1 : static_cast<int>(b < a);
}

/// The same of rows: by the first field that differs of those that are included.
template <class Include>
int compare_fields(const Measurement& a, const Measurement& b, Include include) {
  int order = 0;
  for_each_field([&](const char* name, const char*, auto get) {
    if (order == 0 && include(name)) order = compare(get(a), get(b));
  });
  return order;
}

/// Whether both rows of one key say the same, whichever run measured it, when and beside whom, and
/// whether samples were kept.
bool same_values(const Measurement& a, const Measurement& b) {
  const bool both_sampled = !a.samples_s.empty() && !b.samples_s.empty();
  return compare_fields(a, b, is_value) == 0 && (!both_sampled || a.samples_s == b.samples_s);
}

int compare_whole(const Measurement& a, const Measurement& b) {
  const int order = compare_fields(a, b, [](std::string_view) { return true; });
  return order != 0 ? order : compare(a.samples_s, b.samples_s);
}

template <class Record>
bool same_records(const std::vector<Record>& a, const std::vector<Record>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return encode(x) == encode(y); });
}

bool started_later(const Measurement& a, const Measurement& b) {
  return std::isfinite(a.started_unix_s) &&
         (!std::isfinite(b.started_unix_s) || a.started_unix_s > b.started_unix_s);
}

/// Of two rows of one key that do not contradict each other (failures repeat, a run measures again
/// what it lost, two runs say the same) whether `a` is the one to keep: of the same values one with
/// raw samples, else the one that started later, else whichever, but the same in any order of
/// merging.
bool is_preferred(const Measurement& a, const Measurement& b) {
  if (a.samples_s.empty() != b.samples_s.empty() && same_values(a, b)) return b.samples_s.empty();
  if (started_later(a, b) || started_later(b, a)) return started_later(a, b);
  return compare_whole(a, b) > 0;
}

/// Keeps the rows for which keep(row, its index, how many were kept before it), in order; they move
/// up in place.
template <class Keep>
void compact(Rows& rows, Keep keep) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!keep(rows[i], i, kept)) continue;
    if (kept != i) rows[kept] = std::move(rows[i]);
    ++kept;
  }
  rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(kept), rows.end());
}

std::vector<fs::path> sorted_entries(const fs::path& directory) {
  std::vector<fs::path> entries;
  try {
    for (const auto& entry : fs::directory_iterator(directory)) entries.push_back(entry.path());
  } catch (const fs::filesystem_error& error) {
    throw EnvironmentError(
        fmt::format("{}: cannot be listed: {}", directory.string(), error.code().message()));
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace

std::string conflict_line(const Measurement& row, std::string_view known_run_id,
                          double known_median_s) {
  return fmt::format("{}: run {} has {:.9g} s, run {} has {:.9g} s", row_key(row), known_run_id,
                     known_median_s, row.run_id, row.time.median_s);
}

namespace {

/// The same of whole rows. Where their medians agree it names the first value that does not.
std::string conflict_line(const Measurement& row, const Measurement& known) {
  if (row.time.median_s != known.time.median_s) {
    return conflict_line(row, known.run_id, known.time.median_s);
  }
  std::string differs = "other raw samples", known_has;
  for_each_field([&](const char* name, const char*, auto get) {
    if (!known_has.empty() || !is_value(name) || compare(get(row), get(known)) == 0) return;
    if constexpr (!std::is_enum_v<std::decay_t<decltype(get(row))>>) {
      known_has = fmt::format("{} {}", name, get(known));
      differs = fmt::format("{} {}", name, get(row));
    }
  });
  if (known_has.empty()) known_has = "raw samples";
  return fmt::format("{}: run {} has {}, run {} has {}", row_key(row), known.run_id, known_has,
                     row.run_id, differs);
}

}  // namespace

Merger::Merger(Corpus& into, OnConflict on_conflict) : into_(into), on_conflict_(on_conflict) {
  Corpus given = std::move(into_);
  into_ = Corpus{};
  add(std::move(given));
  before_ = {.devices = into_.devices,
             .environments = into_.environments,
             .groups = into_.groups,
             .sweeps = into_.sweeps,
             .runs = into_.runs};
  rows_before_ = into_.rows.size();
}

void Merger::add(Corpus from) {
  for (const Device& device : from.devices) add(device);
  for (Environment& environment : from.environments) {
    if (environments_.insert(environment.id()).second) {
      into_.environments.push_back(std::move(environment));
    }
  }
  for (GangRecord& group : from.groups) {
    if (groups_.insert(group.id()).second) into_.groups.push_back(std::move(group));
  }
  for (SweepRecord& sweep : from.sweeps) {
    if (sweeps_.insert(sweep.id).second) into_.sweeps.push_back(std::move(sweep));
  }
  for (Run& run : from.runs) {
    const auto [found, added] = runs_.try_emplace(run.id, into_.runs.size());
    if (added) {
      into_.runs.push_back(std::move(run));
    } else {
      for (const auto& [fact, value] : run.facts) into_.runs[found->second].facts[fact] = value;
    }
  }
  add(std::move(from.rows));
  for (std::string& line : from.history) {
    if (std::find(into_.history.begin(), into_.history.end(), line) == into_.history.end()) {
      into_.history.push_back(std::move(line));
    }
  }
}

void Merger::add(const Device& device) {
  const auto [found, added] = devices_.try_emplace(device.id(), into_.devices.size());
  if (added) {
    into_.devices.push_back(device);
    return;
  }
  // A newer description may lack what an older probe found.
  Device merged = device;
  const Device& known = into_.devices[found->second];
  for (std::size_t i = 0; i < attribute_count; ++i) {
    const auto attribute = static_cast<Attribute>(i);
    if (!merged.has(attribute)) merged.set(attribute, known[attribute]);
    const std::string_view name = attribute_table()[i].name;
    // Each probe reaches a little more or less.
    if (known.has(attribute) && merged[attribute] != known[attribute] &&
        !name.starts_with("probed_")) {
      device_changes_.push_back(fmt::format("device {} ({}): {} was {:g} and is {:g} now",
                                            known.device_class, device.id(), name, known[attribute],
                                            merged[attribute]));
    }
  }
  if (merged.bandwidth_curve().empty()) merged.set_bandwidth_curve(known.bandwidth_curve());
  into_.devices[found->second] = merged;
}

void Merger::add(Rows&& from) {
  Rows& rows = into_.rows;
  // The index of the row's key: `next` if it is new. An ok row and a failure of one key are two
  // rows; finish() knows which came last.
  const auto index_of = [&](const Measurement& row, std::size_t next) {
    auto& index = row.status == Status::ok ? ok_rows_ : failures_;
    return index.try_emplace(row_key_hash(row), next).first->second;
  };
  if (rows.empty() && rows.capacity() < from.size()) {
    // Moving a million rows takes longer than looking them up: the first ones stay where they are.
    rows = std::move(from);
    compact(rows, [&](Measurement& row, std::size_t, std::size_t kept) {
      const std::size_t index = index_of(row, kept);
      if (index < kept) settle(index, std::move(row));
      return index == kept;
    });
    return;
  }
  const std::size_t size = rows.size() + from.size();
  if (rows.capacity() < size) rows.reserve(std::max(size, 2 * rows.size()));
  for (Measurement& row : from) {
    const std::size_t index = index_of(row, rows.size());
    if (index < rows.size()) {
      settle(index, std::move(row));
    } else {
      rows.push_back(std::move(row));
    }
  }
}

void Merger::settle(std::size_t index, Measurement&& row) {
  const Measurement& known = into_.rows[index];
  const bool contradicts =
      row.status == Status::ok && row.run_id != known.run_id && !same_values(known, row);
  if (contradicts || contradictions_.contains(index)) {
    contradict(index, std::move(row));
  } else if (is_preferred(row, known)) {
    replace(index, std::move(row));
  }
}

void Merger::replace(std::size_t index, Measurement row) {
  Measurement& known = into_.rows[index];
  if (index < rows_before_) replaced_.try_emplace(index, known);
  known = std::move(row);
}

void Merger::contradict(std::size_t index, Measurement row) {
  auto& rows = contradictions_[index];
  if (rows.empty()) rows.push_back(into_.rows[index]);
  const auto of_run = std::find_if(rows.begin(), rows.end(), [&](const Measurement& other) {
    return other.run_id == row.run_id;
  });
  if (of_run == rows.end()) {
    rows.push_back(std::move(row));
  } else if (is_preferred(row, *of_run)) {
    *of_run = std::move(row);
  }
}

void Merger::settle_contradictions() {
  for (auto& [index, of_runs] : contradictions_) {
    std::vector<Measurement> rows;  // runs may agree in the end
    for (Measurement& row : of_runs) {
      const auto same = std::find_if(rows.begin(), rows.end(), [&](const Measurement& other) {
        return same_values(other, row);
      });
      if (same == rows.end()) {
        rows.push_back(std::move(row));
      } else if (is_preferred(row, *same)) {
        *same = std::move(row);
      }
    }
    for (std::size_t i = 1; i < rows.size(); ++i) {
      conflicts_.push_back(conflict_line(rows[i], rows[0]));
    }
    if (rows.size() > 1) ++rows_in_conflict_;
    replace(index, std::move(rows[kept_of(rows)]));
  }
}

std::size_t Merger::kept_of(std::vector<Measurement>& rows) const {
  switch (on_conflict_) {
    case OnConflict::refuse:
    case OnConflict::keep_first:
      return 0;
    case OnConflict::newest: {
      std::size_t newest = 0;
      for (std::size_t i = 1; i < rows.size(); ++i) {
        if (!started_later(rows[newest], rows[i])) newest = i;
      }
      return newest;
    }
    case OnConflict::median:
      std::sort(rows.begin(), rows.end(), [](const Measurement& a, const Measurement& b) {
        return std::pair(a.time.median_s, std::string_view(a.run_id)) <
               std::pair(b.time.median_s, std::string_view(b.run_id));
      });
      return (rows.size() - 1) / 2;
  }
  return 0;
}

void Merger::finish() {
  settle_contradictions();
  for (const auto& [index, row] : replaced_) {
    const Measurement& now = into_.rows[index];
    changed_ = changed_ || compare_whole(now, row) != 0;
  }
  const auto is_failure = [](const Measurement& row) { return row.status != Status::ok; };
  if (!failures_.empty()) {
    std::unordered_map<Hash128, double, HashOfHash128> last_ok_s;
    for (const Measurement& row : into_.rows) {
      if (is_failure(row)) continue;
      // Of an ok row without a time nothing is known to be later.
      const double start_s = std::isfinite(row.started_unix_s)
                                 ? row.started_unix_s
                                 : std::numeric_limits<double>::infinity();
      double& last_s = last_ok_s.try_emplace(task_and_replicate_hash(row), start_s).first->second;
      last_s = std::max(last_s, start_s);
    }
    compact(into_.rows, [&](const Measurement& row, std::size_t index, std::size_t) {
      const auto ok =
          is_failure(row) ? last_ok_s.find(task_and_replicate_hash(row)) : last_ok_s.end();
      const bool superseded = ok != last_ok_s.end() && !(row.started_unix_s > ok->second);
      // One of before is gone, or a new one stays.
      if (superseded == (index < rows_before_)) changed_ = true;
      return !superseded;
    });
  } else {
    changed_ = changed_ || into_.rows.size() > rows_before_;
  }
  changed_ = changed_ || !same_records(before_.devices, into_.devices) ||
             !same_records(before_.environments, into_.environments) ||
             !same_records(before_.groups, into_.groups) ||
             !same_records(before_.sweeps, into_.sweeps) || !same_records(before_.runs, into_.runs);
}

std::vector<fs::path> journals_of(const fs::path& run_directory) {
  std::vector<fs::path> journals;
  if (!fs::is_directory(run_directory)) {
    throw EnvironmentError(fmt::format("{}: no such run directory", run_directory.string()));
  }
  if (!fs::is_directory(run_directory / "runs")) return journals;
  for (const fs::path& run : sorted_entries(run_directory / "runs")) {
    if (!fs::is_directory(run)) continue;
    for (const fs::path& file : sorted_entries(run)) {
      if (file.filename().string().starts_with("journal-")) journals.push_back(file);
    }
  }
  return journals;
}

std::string no_run_directory(const fs::path& directory) {
  return fmt::format(
      "{}: expected a run directory of 'forecost collect', with runs/*/journal-* or corpus.h5",
      directory.string());
}

Corpus merge_journals(const fs::path& run_directory) {
  const auto journals = journals_of(run_directory);
  if (journals.empty()) throw DataError(no_run_directory(run_directory));
  spdlog::info("{}: no corpus.h5 yet: read {} of a run that is not merged", run_directory.string(),
               format_counted(static_cast<double>(journals.size()), "journal"));
  Corpus corpus;
  Merger merger(corpus);
  for (const fs::path& journal : journals) merger.add(read_journal(journal));
  merger.finish();
  if (const auto& conflicts = merger.conflicts(); !conflicts.empty()) {
    throw DataError(fmt::format(
        "{}: its runs contradict each other: {}{}; 'forecost corpus merge --on-conflict' settles "
        "it",
        run_directory.string(), conflicts.front(),
        conflicts.size() == 1 ? "" : fmt::format(" (and {} more)", conflicts.size() - 1)));
  }
  return corpus;
}

Corpus read_journals(const fs::path& run_directory) {
  Corpus all;
  for (const fs::path& file : journals_of(run_directory)) {
    Corpus one = read_journal(file);
    const auto move_to = [](auto& to, auto& from) {
      to.insert(to.end(), std::make_move_iterator(from.begin()),
                std::make_move_iterator(from.end()));
    };
    move_to(all.devices, one.devices);
    move_to(all.environments, one.environments);
    move_to(all.groups, one.groups);
    move_to(all.sweeps, one.sweeps);
    move_to(all.runs, one.runs);
    move_to(all.rows, one.rows);
  }
  return all;
}

std::string history_line(std::string_view what) {
  return fmt::format(
      "{:%Y-%m-%dT%H:%M:%SZ} forecost {}: {}",
      fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())), version,
      what);
}

namespace {

/// Notes a merge. Those of one launch, minute after minute, leave one line.
void note(std::vector<std::string>& history, std::string_view what, std::size_t rows) {
  const std::string mark = fmt::format(": {} into ", what);
  if (!history.empty() && history.back().find(mark) != std::string::npos) history.pop_back();
  history.push_back(history_line(fmt::format("{} into {}", what, format_counted(rows, "row"))));
}

/// A name beside the file that is free.
fs::path set_aside_name(const fs::path& file) {
  for (int i = 1;; ++i) {
    fs::path name = file;
    name += i == 1 ? std::string(".damaged") : fmt::format(".damaged-{}", i);
    if (!fs::exists(name)) return name;
  }
}

}  // namespace

MergeOutcome merge_into_file(const fs::path& given, std::string_view what,
                             const std::function<void(Merger&)>& inputs,
                             const MergeOptions& options) {
  const fs::path file = followed(given);
  // File systems without locks (some NFS and Lustre mounts) merge unguarded: each merge is atomic,
  // and the next one repairs what two at a time could leave.
  const fs::path lock_file = file.parent_path() / ("." + file.filename().string() + ".merge-lock");
  FileLock lock(lock_file, std::min(options.wait_s, 2.0));
  if (lock.busy() && options.wait_s > 2) {
    spdlog::info("{}: waiting for another merge into it", file.string());
    lock = FileLock(lock_file, options.wait_s);
  }
  MergeOutcome outcome;
  outcome.busy = lock.busy();
  if (outcome.busy) return outcome;

  Corpus corpus;
  std::string damage;
  int schema_version = corpus_schema_version;
  if (fs::exists(file)) {
    try {
      corpus = read_corpus(file, true, &schema_version);
    } catch (const DataError& error) {
      if (!options.set_damaged_aside) throw;
      damage = error.what();
    }
  }
  Merger merger(corpus, options.on_conflict);
  inputs(merger);
  merger.finish();
  outcome.conflicts = merger.conflicts();
  outcome.rows_in_conflict = merger.rows_in_conflict();
  outcome.device_changes = merger.device_changes();
  outcome.rows_before = merger.rows_before();
  outcome.rows = corpus.rows.size();
  if (options.on_conflict == OnConflict::refuse && !outcome.conflicts.empty()) return outcome;
  if (!damage.empty()) {
    // It may hold what no input does, and a newer program or a copy may help.
    const fs::path aside = set_aside_name(file);
    std::error_code error;
    fs::rename(file, aside, error);
    // Where locks do not work, another merge may have done it meanwhile.
    if (error && error != std::errc::no_such_file_or_directory) {
      throw EnvironmentError(fmt::format("{}: cannot be renamed to {}: {}", file.string(),
                                         aside.filename().string(), error.message()));
    }
    spdlog::warn("{}; kept as {}, a new one is made", damage, aside.filename().string());
  } else if (fs::exists(file) && !merger.changed() && schema_version == corpus_schema_version) {
    return outcome;
  }
  std::string noted(what);
  if (schema_version != corpus_schema_version) {
    noted += fmt::format(", migrated from schema version {},", schema_version);
  }
  if (!outcome.conflicts.empty()) {
    noted += fmt::format(", {} of conflicting rows kept for {},", name_of(options.on_conflict),
                         format_counted(static_cast<double>(outcome.rows_in_conflict), "row"));
  }
  note(corpus.history, noted, corpus.rows.size());
  write_corpus(corpus, file);
  outcome.written = true;
  return outcome;
}

MergeOutcome merge_run_directory(const fs::path& run_directory, double wait_s) {
  const std::vector<fs::path> journals = journals_of(run_directory);
  std::string what =
      fmt::format("merged {}", format_counted(static_cast<double>(journals.size()), "journal"));
  if (!journals.empty()) {
    what += fmt::format(" up to run {}", journals.back().parent_path().filename().string());
  }
  return merge_into_file(run_directory / "corpus.h5", what,
                         [&](Merger& merger) {
                           for (const fs::path& journal : journals)
                             merger.add(read_journal(journal));
                         },
                         {.wait_s = wait_s, .set_damaged_aside = true});
}

}  // namespace forecost
