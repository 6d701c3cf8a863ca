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
#include "core/version.hpp"
#include "data/corpus/fields.hpp"
#include "data/corpus/journal.hpp"
#include "data/corpus/records.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

/// Every value of a row but its run and samples, so that rows compare by the million.
std::string values_of(const Measurement& row) {
  std::string bytes;
  visit_fields(row, [&](const char*, const char*, const auto& member) {
    using Value = std::decay_t<decltype(member)>;
    if constexpr (std::is_same_v<Value, std::string>) {
      if (&member != &row.run_id) bytes.append(member).append(1, '\0');
    } else {
      Value value = member;
      if constexpr (std::is_floating_point_v<Value>) {  // one NaN is as good as another
        if (std::isnan(value)) value = std::numeric_limits<Value>::quiet_NaN();
      }
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  });
  return bytes;
}

/// Whether both rows of one key say the same, whichever run wrote them and whether samples were
/// kept.
bool same_values(const Measurement& a, const Measurement& b) {
  const bool both_sampled = !a.samples_s.empty() && !b.samples_s.empty();
  return (!both_sampled || a.samples_s == b.samples_s) && values_of(a) == values_of(b);
}

template <class Record>
bool same_records(const std::vector<Record>& a, const std::vector<Record>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return encode(x) == encode(y); });
}

/// Whether both hold the same in the same order, but for the history.
bool same_content(const Corpus& a, const Corpus& b) {
  return same_records(a.devices, b.devices) && same_records(a.environments, b.environments) &&
         same_records(a.sweeps, b.sweeps) && same_records(a.runs, b.runs) &&
         std::equal(a.rows.begin(), a.rows.end(), b.rows.begin(), b.rows.end(),
                    [](const Measurement& x, const Measurement& y) {
                      return x.task == y.task && x.run_id == y.run_id &&
                             x.samples_s == y.samples_s && values_of(x) == values_of(y);
                    });
}

bool started_later(const Measurement& a, const Measurement& b) {
  return std::isfinite(a.started_unix_s) &&
         (!std::isfinite(b.started_unix_s) || a.started_unix_s > b.started_unix_s);
}

std::string task_and_replicate(const Measurement& row) {
  return fmt::format("{} {}", task_key(row.task, row.device_class), row.replicate);
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

Merger::Merger(Corpus& into) : into_(into) {
  const Corpus given = std::move(into_);
  into_ = Corpus{};
  add(given);
}

void Merger::add(const Corpus& from) {
  for (const Device& device : from.devices) add(device);
  for (const Environment& environment : from.environments) {
    if (environments_.insert(environment.id()).second) into_.environments.push_back(environment);
  }
  for (const SweepRecord& sweep : from.sweeps) {
    if (sweeps_.insert(sweep.id).second) into_.sweeps.push_back(sweep);
  }
  for (const Run& run : from.runs) {
    const auto [found, added] = runs_.try_emplace(run.id, into_.runs.size());
    if (added) {
      into_.runs.push_back(run);
    } else {
      for (const auto& [fact, value] : run.facts) into_.runs[found->second].facts[fact] = value;
    }
  }
  for (const Measurement& row : from.rows) add(row);
  for (const std::string& line : from.history) {
    if (std::find(into_.history.begin(), into_.history.end(), line) == into_.history.end()) {
      into_.history.push_back(line);
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
  }
  into_.devices[found->second] = merged;
}

void Merger::add(const Measurement& row) {
  // An ok row and a failure of one key are two rows; finish() knows which came last.
  const bool ok = row.status == Status::ok;
  const std::string key = row_key(row);
  const auto [found, added] = rows_.try_emplace(ok ? key : key + " failure", into_.rows.size());
  if (added) {
    into_.rows.push_back(row);
    return;
  }
  Measurement& known = into_.rows[found->second];
  if (same_values(known, row)) {
    if (known.samples_s.empty()) known = row;
  } else if (ok && row.run_id != known.run_id) {
    conflicts_.push_back(fmt::format("{}: run {} has {:.6g} s, run {} has {:.6g} s", key,
                                     known.run_id, known.time.median_s, row.run_id,
                                     row.time.median_s));
  } else if (started_later(row, known)) {
    known = row;  // failures may repeat, and a run may measure again what it lost
  }
}

std::vector<std::string> Merger::finish() {
  const auto is_failure = [](const Measurement& row) { return row.status != Status::ok; };
  if (std::none_of(into_.rows.begin(), into_.rows.end(), is_failure)) return conflicts_;
  std::unordered_map<std::string, double> last_ok_s;
  for (const Measurement& row : into_.rows) {
    if (is_failure(row)) continue;
    // Of an ok row without a time nothing is known to be later.
    const double start_s = std::isfinite(row.started_unix_s)
                               ? row.started_unix_s
                               : std::numeric_limits<double>::infinity();
    double& last_s = last_ok_s.try_emplace(task_and_replicate(row), start_s).first->second;
    last_s = std::max(last_s, start_s);
  }
  std::erase_if(into_.rows, [&](const Measurement& row) {
    if (!is_failure(row)) return false;
    const auto ok = last_ok_s.find(task_and_replicate(row));
    return ok != last_ok_s.end() && !(row.started_unix_s > ok->second);
  });
  return conflicts_;
}

std::vector<std::string> merge_into(Corpus& into, const Corpus& from) {
  Merger merger(into);
  merger.add(from);
  return merger.finish();
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

/// A name beside the file that is free.
fs::path set_aside_name(const fs::path& file) {
  for (int i = 1;; ++i) {
    fs::path name = file;
    name += i == 1 ? std::string(".damaged") : fmt::format(".damaged-{}", i);
    if (!fs::exists(name)) return name;
  }
}

/// Notes a merge in the history. The merges of one launch, minute after minute, leave one line.
void note_merge(std::vector<std::string>& history, const std::vector<fs::path>& journals,
                std::size_t rows) {
  std::string what =
      fmt::format("merged {} journal{}", journals.size(), journals.size() == 1 ? "" : "s");
  if (!journals.empty()) {
    what += fmt::format(" up to run {}", journals.back().parent_path().filename().string());
  }
  what += " into ";
  if (!history.empty() && history.back().find(": " + what) != std::string::npos) history.pop_back();
  history.push_back(history_line(fmt::format("{}{} rows", what, rows)));
}

}  // namespace

std::vector<std::string> merge_run_directory(const fs::path& run_directory) {
  const std::vector<fs::path> journals = journals_of(run_directory);
  const fs::path file = run_directory / "corpus.h5";
  const bool replaces = fs::exists(file);
  Corpus known;
  std::string damage;
  if (replaces) {
    try {
      known = read_corpus(file);
    } catch (const DataError& error) {
      damage = error.what();
    }
  }
  Corpus merged;
  Merger merger(merged);
  merger.add(known);
  for (const fs::path& journal : journals) merger.add(read_journal(journal));
  auto conflicts = merger.finish();
  if (!conflicts.empty()) return conflicts;
  if (!damage.empty()) {
    // It may hold what no journal does, and a newer program or a copy may help.
    const fs::path aside = set_aside_name(file);
    fs::rename(file, aside);
    spdlog::warn("{}; kept as {}, a new one is made from the {} journals", damage,
                 aside.filename().string(), journals.size());
  } else if (replaces && same_content(known, merged)) {
    return {};
  }
  note_merge(merged.history, journals, merged.rows.size());
  write_corpus(merged, file);
  return {};
}

}  // namespace forecost
