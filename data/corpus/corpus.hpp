#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/huge_page_allocator.hpp"
#include "data/device.hpp"
#include "data/measurement.hpp"

namespace forecost {

/// 1: dense and conv2d. 2: imported tables (source_line; matmul, layer_norm, softmax, elementwise,
/// activation), and `n` became sample_count. 3: groups of devices (group_id). Older ones are read,
/// what they lack has its default; newer ones are refused.
inline constexpr int corpus_schema_version = 3;

struct SweepRecord {
  std::string id, name, text;
};

using Rows = std::vector<Measurement, HugePageAllocator<Measurement>>;

/// A corpus in memory: the content of a corpus.h5 or of journals.
struct Corpus {
  std::vector<Device> devices;  ///< found by Device::id()
  std::vector<Environment> environments;
  std::vector<GangRecord> groups;
  std::vector<SweepRecord> sweeps;
  std::vector<Run> runs;
  Rows rows;
  std::vector<std::string> history;  ///< one line per change, oldest first
};

/// Writes FILE and FILE.sha256 beside it: temporary file, fsync, rename. Throws EnvironmentError.
void write_corpus(const Corpus& corpus, const std::filesystem::path& file);
/// What such a file consists of; `name` is for messages.
std::string corpus_bytes(const Corpus& corpus, const std::string& name);

/// A corpus.h5, or the one of a run directory; the directory itself if there is none in it yet.
std::filesystem::path corpus_file(const std::filesystem::path& file_or_run_directory);

/// The whole of what CorpusReader (reader.hpp) reads; throws what that does.
Corpus read_corpus(const std::filesystem::path& file_or_run_directory, bool with_samples = true,
                   int* schema_version = nullptr);

/// Whether the file says that it is a corpus, of whatever version; or is damaged, but has a digest.
bool is_corpus(const std::filesystem::path& file);
/// Finds out before the work that rows cannot be added to `file`: check_output() (core/file.hpp),
/// and UsageError where it is something else than a corpus.
void check_corpus_output(const std::filesystem::path& file);

/// What is wrong with a row in itself, "" if nothing. Of a row that was imported quartiles, minimum
/// and maximum may be unknown.
std::string row_fault(const Measurement& row);
/// What is wrong, one line each, naming group and row; empty if all is well. Damage that stops the
/// reading is one line too.
std::vector<std::string> validate_corpus(const std::filesystem::path& file);
/// The same of every journal of a run directory (a row may be there again) and of its corpus.h5, if
/// there is one yet; a directory with neither is a problem too. Throws EnvironmentError.
std::vector<std::string> validate_run_directory(const std::filesystem::path& run_directory);

/// Everything under RUN_DIR/runs/*/journal-*: a torn last record of a journal (a kill) is left out,
/// damage anywhere else throws DataError.
Corpus read_journals(const std::filesystem::path& run_directory);

}  // namespace forecost
