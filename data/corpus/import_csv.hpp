#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace forecost {

/// RFC 4180, but for what is said here; blank lines are passed over, and spaces around a field that
/// is not in quotes.
struct CsvDialect {
  char delimiter = ',';
  std::string comment;  ///< rows that begin with it are passed over; empty: there are none
};

struct CsvRow {
  std::int64_t line = 0, last_line = 0;  ///< of the file, from 1; they differ by quoted line ends
  std::span<const std::string_view> fields;  ///< valid during the call
};

/// Hands out the rows of `text`, the whole content of a file called `name`, in order. A line ends
/// with LF, CR LF or CR. Throws DataError "NAME:LINE: ..." for a quote that is never closed and for
/// what is no text: UTF-16, compressed or binary files.
void read_csv(std::string_view text, const std::string& name, const CsvDialect& dialect,
              const std::function<void(const CsvRow&)>& row);

/// Fields in quotes, commas between them, LF.
std::string csv_line(std::span<const std::string> fields);

}  // namespace forecost
