#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus/corpus.hpp"
#include "data/h5/h5.hpp"

namespace forecost {

/// Reads the rows of a corpus.h5 a batch at a time, in memory that does not grow with the file (but
/// with journals that are not merged yet).
class CorpusReader {
 public:
  /// The names that Scan knows.
  static std::vector<std::string> all_columns();

  /// Called with what is wrong, "FILE: /GROUP: row N: ...".
  using Problem = std::function<void(const std::string& line)>;

  /// Takes what corpus_file() takes, and verifies the digest before HDF5 opens the file, which
  /// stays open: a merge meanwhile does not change what is read. Of a run directory without
  /// corpus.h5 it reads the journals, merged in memory, and logs so; nothing is written. Throws
  /// DataError (corrupt, another schema, not a corpus, runs that contradict each other) or
  /// EnvironmentError (not readable). With `problem`, what does not stop the reading is told there
  /// instead.
  explicit CorpusReader(const std::filesystem::path& file_or_run_directory,
                        const Problem& problem = {});

  /// Everything but the rows: devices, environments, sweeps, runs, history.
  const Corpus& tables() const { return tables_; }
  std::int64_t schema_version() const { return schema_version_; }
  /// Of the file's content, as its digest lists it, or would.
  const std::string& sha256() const { return sha256_; }
  /// Operators that have rows, in their fixed order, and how many; of all of them.
  const std::vector<const Operator*>& operators() const { return operators_; }
  std::size_t rows(const Operator& op) const;
  std::size_t rows() const;

  struct Scan {
    /// Fields by their column names (docs/corpus.md); "layer" stands for all parameters,
    /// "samples_s" for the raw samples. Fields that are not read keep their defaults, and a layer
    /// that is not read is the operator's smallest.
    std::vector<std::string> columns = {};
    /// Only rows for which this holds; it sees `where_columns` alone. Batches without such a row
    /// are passed over without reading the other columns.
    std::function<bool(const Measurement&)> where = {};
    std::vector<std::string> where_columns = {};
    /// Rows of this operator only.
    const Operator* op = nullptr;
    /// Rows that no program could have meant (an unknown code, a parameter out of range) are told
    /// here and left out; else they throw DataError.
    Problem problem = {};
  };
  /// Calls `visit` for each row, in the order of the file; it may move from the row. `index` counts
  /// the rows of its operator. Throws UsageError for an unknown column, DataError.
  void scan(const Scan& scan,
            const std::function<void(Measurement& row, std::size_t index)>& visit) const;

 private:
  void check_columns(const h5::Group& group, const Operator& op, const Problem& problem) const;
  void scan_operator(const Operator& op, const Scan& scan,
                     const std::function<void(Measurement&, std::size_t)>& visit) const;

  std::string name_;
  std::string sha256_;
  h5::File file_;
  std::int64_t schema_version_ = 0;
  Corpus tables_;
  std::vector<const Operator*> operators_;
};

}  // namespace forecost
