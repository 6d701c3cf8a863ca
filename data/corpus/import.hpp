#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "data/corpus/corpus.hpp"
#include "data/corpus/import_mapping.hpp"

namespace forecost {

/// A row of a table that could not be imported.
struct RefusedRow {
  std::string file;  ///< as it was given
  std::int64_t line = 0;
  std::string column;  ///< and its text; empty where the row as a whole is refused
  std::string value;
  std::string reason;  ///< of one line, for people
  std::string kind;    ///< the reason without the values, for counting

  /// "FILE:LINE: column 'matsize' = '': expected an integer 1 to 65536".
  std::string text() const;
};

struct ImportOptions {
  std::optional<Device> device;                   ///< of rows whose mapping tells none
  std::map<std::string, std::string> facts = {};  ///< of every environment; precede the mapping's
  bool strict = false;                            ///< the first refused row is a DataError
  std::function<void(const RefusedRow&)> on_refused = {};
};

/// Every row of a file is in one of the three.
struct ImportCounts {
  std::int64_t rows = 0, imported = 0, refused = 0, filtered = 0;
  std::map<std::string, std::int64_t> reasons = {};  ///< of the refused ones, by kind
};

/// Turns tables into a corpus, batch by batch. The same files, mapping, device and facts give the
/// same corpus, at whatever time.
class Importer {
 public:
  /// Throws UsageError where neither mapping nor options tell a device, or both.
  Importer(ImportMapping mapping, ImportOptions options);
  ~Importer();
  Importer(const Importer&) = delete;
  Importer& operator=(const Importer&) = delete;

  /// Hands its rows out in batches, each with the devices, environments and runs that no batch
  /// before had. `expect` is told before how many rows there will be at most. Throws
  /// EnvironmentError (unreadable), DataError (no CSV, a column that is not there, a refused row if
  /// strict) or UsageError (the same content was added before).
  ImportCounts add(const std::filesystem::path& file, const std::function<void(Corpus)>& batch,
                   const std::function<void(std::size_t rows)>& expect = {});

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace forecost
