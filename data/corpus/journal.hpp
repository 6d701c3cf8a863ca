#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "data/corpus/corpus.hpp"

namespace forecost {

/// The only thing that is ever appended to: one checksummed record per finished row, handed to the
/// kernel before the row is reported (a kill of the process loses nothing), synced at most once a
/// second (a power failure loses at most that).
class Journal {
 public:
  /// Creates the file; throws EnvironmentError if it exists or cannot be created.
  explicit Journal(const std::filesystem::path& file);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Each throws EnvironmentError if the record could not be written whole (disk full); what was
  // written before stays readable.
  void append(const Device& device);
  void append(const Environment& environment);
  void append(const GangRecord& group);
  void append(const SweepRecord& sweep);
  void append(const Run& run);
  void append(const Measurement& row);
  void sync();

 private:
  void append_record(char kind, const std::string& payload);
  std::filesystem::path file_;
  int fd_ = -1;
  std::chrono::steady_clock::time_point last_sync_;
};

/// Reads one journal. A torn last record (a kill) is left out. Damage anywhere else throws
/// DataError, or, where `damage` is given, is told there, a line each, and passed over.
Corpus read_journal(const std::filesystem::path& file, std::vector<std::string>* damage = nullptr);

}  // namespace forecost
