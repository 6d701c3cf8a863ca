#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocabulary.hpp"

// A corpus as a table for other programs: CSV, or JSON Lines with one object per row.

namespace forecost {

enum class TableFormat : std::uint8_t { csv, jsonl };
template <>
struct EnumNames<TableFormat> {
  static constexpr std::string_view kind = "format";
  static constexpr std::array<std::string_view, 2> names{"csv", "jsonl"};
};

struct ExportOptions {
  TableFormat format = TableFormat::csv;
  std::vector<std::string> operators;       ///< by name; none stands for all of the corpus
  std::vector<std::string> columns;         ///< in this order; none stands for all but samples_s
  bool samples = false;                     ///< the column samples_s too
  std::vector<Status> statuses;             ///< rows of these only; none stands for all
  std::vector<std::string> device_classes;  ///< the same
};

struct ExportCount {
  std::size_t rows, columns;
};

/// By the ending of the file's name. Throws UsageError for another ending.
TableFormat table_format_of(const std::filesystem::path& file);

/// Calls write(bytes) with one piece of the table after the other: the columns `operator`, the
/// parameters of the chosen operators, the fields of a Measurement and `samples_s`; the rows in the
/// order of the corpus. Numbers have the fewest digits that read back as the same bits (samples as
/// float32). CSV: a header, quotes as in RFC 4180, lines that end in a line feed; what is unknown
/// or none of the operator's parameters is empty. JSON Lines: what is unknown or infinite is null,
/// another operator's parameters are left out. Takes what corpus_file() takes. Throws UsageError
/// for an unknown operator, column or device class, and what reading a corpus throws.
ExportCount export_corpus(const std::filesystem::path& file_or_run_directory,
                          const ExportOptions& options,
                          const std::function<void(std::string_view bytes)>& write);

/// The same into a file, which is replaced whole or not at all. Throws EnvironmentError.
ExportCount export_corpus(const std::filesystem::path& file_or_run_directory,
                          const ExportOptions& options, const std::filesystem::path& output);

/// What check_output() finds; also refuses, with UsageError, to replace anything that exists but an
/// empty file or an earlier export: the table that a corpus was imported from may have that name.
void check_export_output(const std::filesystem::path& output);

}  // namespace forecost
