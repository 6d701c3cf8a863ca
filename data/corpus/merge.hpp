#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/enums.hpp"
#include "core/hash.hpp"
#include "data/corpus/corpus.hpp"

namespace forecost {

/// What becomes of ok rows of one key with different values from different runs. All others but
/// `refuse` keep one of the rows as it was measured; none makes a row up.
enum class OnConflict : std::uint8_t {
  refuse,     ///< all are listed and nothing is written
  newest,     ///< the row that started last; where no start is known, the one merged last
  median,     ///< the row with the middle median_s, of an even number the smaller of the two
  keep_first  ///< the row merged first
};
template <>
struct EnumNames<OnConflict> {
  static constexpr std::string_view kind = "conflict policy";
  static constexpr std::array<std::string_view, 4> names{"refuse", "newest", "median",
                                                         "keep-first"};
};

/// Merges corpora into one: tables by id, rows by row key. The same row twice is kept once, and of
/// several failures of one key the last; an ok row supersedes the failures of the same task,
/// replicate and class, on whichever device, but those that are known to have started after it:
/// they stay beside it, so that one key has at most one ok row and one failure. Of two ok rows of
/// one key and one run the later is kept; from different runs with different values (is_value() in
/// fields.hpp) they are a conflict, in which each run has one say, however often its row is added:
/// by its journals, by the corpus.h5 that was merged from these, by copies. With the same values
/// they are no conflict: the one that started last is kept, but one with raw samples before one
/// without.
class Merger {
 public:
  /// Starts with what `into` holds, itself merged. `into` outlives the merger and must not be
  /// changed by others meanwhile.
  explicit Merger(Corpus& into, OnConflict on_conflict = OnConflict::refuse);
  /// Makes room for so many rows, for who adds them in small batches.
  void expect(std::size_t rows) {
    into_.rows.reserve(into_.rows.size() + rows);
    ok_rows_.reserve(ok_rows_.size() + 2 * rows);  // chains of a full table cost more than all else
  }
  void add(Corpus from);
  /// Settles the conflicts and drops the failures that an ok row supersedes. To be called once, at
  /// the end.
  void finish();

  // --- after finish() ---
  /// The conflicts, refused or settled: of each key a line for each run that contradicts the first.
  const std::vector<std::string>& conflicts() const { return conflicts_; }
  /// Whether `into` holds anything else than before, but for the history.
  bool changed() const { return changed_; }
  std::size_t rows_before() const { return rows_before_; }
  /// How many rows had conflicts.
  std::size_t rows_in_conflict() const { return rows_in_conflict_; }
  /// Static attributes of a device that were told in two ways, one line each; the last one is kept.
  const std::vector<std::string>& device_changes() const { return device_changes_; }

 private:
  void add(const Device& device);
  void add(Rows&& from);
  void settle(std::size_t known, Measurement&& row);
  void contradict(std::size_t known, Measurement row);
  void settle_contradictions();
  /// The index of the row that the policy keeps of those with different values; may sort them.
  std::size_t kept_of(std::vector<Measurement>& rows) const;
  void replace(std::size_t known, Measurement row);

  using KeyIndex = std::unordered_map<Hash128, std::size_t, HashOfHash128>;
  Corpus& into_;
  OnConflict on_conflict_;
  std::unordered_map<std::string, std::size_t> devices_, runs_;
  std::unordered_set<std::string> environments_, groups_, sweeps_;
  KeyIndex ok_rows_, failures_;
  /// What the runs say of a key of which they ever said different things, by the index of the row
  /// that was known first: one row of each run, in the order in which the runs came.
  std::map<std::size_t, std::vector<Measurement>> contradictions_;
  std::vector<std::string> conflicts_, device_changes_;
  Corpus before_;                                ///< without rows
  std::map<std::size_t, Measurement> replaced_;  ///< rows of before, by index, as they were
  std::size_t rows_before_ = 0, rows_in_conflict_ = 0;
  bool changed_ = false;
};

/// "KEY: run A has 1 s, run B has 2 s", of a row and what another run has for its key.
std::string conflict_line(const Measurement& row, std::string_view known_run_id,
                          double known_median_s);

struct MergeOptions {
  OnConflict on_conflict = OnConflict::refuse;
  /// How long to wait for another merge into the same file, seconds.
  double wait_s = 600;
  /// A file that cannot be read (damaged, of a newer version) is renamed to FILE.damaged, with a
  /// warning, and made again from the inputs; else that is a DataError.
  bool set_damaged_aside = false;
};
struct MergeOutcome {
  /// With `refuse`, nothing was written if there are any; else how many were settled.
  std::vector<std::string> conflicts;
  std::size_t rows_in_conflict = 0;
  std::vector<std::string> device_changes;  ///< warnings
  std::size_t rows_before = 0, rows = 0;
  bool written = false;
  bool busy = false;  ///< another merge into the file went on for longer than wait_s: nothing done
};
/// Adds to the corpus FILE, which keeps what it holds, what `inputs` adds to the merger. One merge
/// into a file at a time, on whatever node. `what` is for the history ("merged 2 inputs"); a line
/// of the same `what` at its end is replaced. Writes nothing where nothing is new. Throws
/// DataError, EnvironmentError.
MergeOutcome merge_into_file(const std::filesystem::path& file, std::string_view what,
                             const std::function<void(Merger&)>& inputs,
                             const MergeOptions& options = {});

/// Merges the journals into RUN_DIR/corpus.h5, by which rows stay whose journals are gone. A
/// damaged corpus.h5 is set aside. Throws DataError for a damaged journal, EnvironmentError.
MergeOutcome merge_run_directory(const std::filesystem::path& run_directory, double wait_s = 600);

/// What merge_run_directory() would write for a directory without corpus.h5, but for the history:
/// the same from the same journals. Logs that and how many they are. Throws DataError where there
/// are none, where one is damaged and where runs contradict each other.
Corpus merge_journals(const std::filesystem::path& run_directory);

/// "TIME forecost VERSION: what", for histories.
std::string history_line(std::string_view what);

/// RUN_DIR/runs/*/journal-*, sorted; throws EnvironmentError.
std::vector<std::filesystem::path> journals_of(const std::filesystem::path& run_directory);
/// What is wrong with a directory that has neither journals nor a corpus.h5.
std::string no_run_directory(const std::filesystem::path& directory);

}  // namespace forecost
