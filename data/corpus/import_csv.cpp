#include "data/corpus/import_csv.hpp"

#include <algorithm>
#include <new>
#include <vector>

#include <csv.h>
#include <fmt/format.h>

#include "core/error.hpp"

namespace forecost {

namespace {

/// A libcsv parser that is fed line by line, since it counts no lines and knows no comments.
class RowParser {
 public:
  explicit RowParser(char delimiter) {
    // Otherwise blank lines and line ends in quotes could not be told apart.
    if (csv_init(&parser_, CSV_REPALL_NL) != 0) throw std::bad_alloc();
    csv_set_delim(&parser_, static_cast<unsigned char>(delimiter));
  }
  ~RowParser() { csv_free(&parser_); }
  RowParser(const RowParser&) = delete;
  RowParser& operator=(const RowParser&) = delete;

  /// A line with its end. Returns whether a row, or a blank line, ended with it.
  bool feed(std::string_view line) {
    begin();
    if (csv_parse(&parser_, line.data(), line.size(), &on_field, &on_row, this) != line.size()) {
      throw std::bad_alloc();  // its one error outside strict mode
    }
    return !open_;
  }
  /// The same of the end of the file; false if a quote is still open.
  bool finish() {
    begin();
    csv_set_opts(&parser_, CSV_REPALL_NL | CSV_STRICT | CSV_STRICT_FINI);
    return csv_fini(&parser_, &on_field, &on_row, this) == 0;
  }
  /// Of the row that ended; none of a blank line.
  std::span<const std::string_view> fields() {
    fields_.clear();
    std::size_t from = 0;
    for (const std::size_t end : ends_) {
      fields_.emplace_back(text_.data() + from, end - from);
      from = end;
    }
    return fields_;
  }

 private:
  void begin() {
    if (open_) return;
    open_ = true;
    text_.clear();
    ends_.clear();
  }
  static void on_field(void* field, std::size_t size, void* self) {
    auto& parser = *static_cast<RowParser*>(self);
    parser.text_.append(static_cast<const char*>(field), size);
    parser.ends_.push_back(parser.text_.size());
  }
  static void on_row(int, void* self) { static_cast<RowParser*>(self)->open_ = false; }

  csv_parser parser_{};
  bool open_ = false;
  std::string text_;
  std::vector<std::size_t> ends_;
  std::vector<std::string_view> fields_;
};

/// Behind the end of the first line of `text`: LF, CR LF or CR; npos if it has none.
std::size_t line_size(std::string_view text) {
  const std::size_t lf = text.find('\n');
  const std::size_t cr = text.substr(0, lf).find('\r');
  if (cr == std::string_view::npos) return lf == std::string_view::npos ? lf : lf + 1;
  return cr + 1 == lf ? lf + 1 : cr + 1;
}

/// By their beginnings, the files that are given in a table's place.
void check_is_text(std::string_view text, const std::string& name, char delimiter) {
  struct Other {
    std::string_view beginning, what;
  };
  static constexpr Other others[] = {
      {"\xFF\xFE", "UTF-16: expected UTF-8; 'iconv -f UTF-16 -t UTF-8' converts it"},
      {"\xFE\xFF", "UTF-16: expected UTF-8; 'iconv -f UTF-16 -t UTF-8' converts it"},
      {"\x1F\x8B", "compressed with gzip: gunzip it first"},
      {"BZh9", "compressed with bzip2: bunzip2 it first"},
      {"\xFD"
       "7zXZ",
       "compressed with xz: unxz it first"},
      {"\x28\xB5\x2F\xFD", "compressed with zstd: unzstd it first"},
      {"PK\x03\x04", "a ZIP archive or a spreadsheet: unzip it or save it as CSV first"},
      {"\x89HDF", "an HDF5 file: expected a table as text; 'corpus merge' takes in corpora"},
  };
  for (const auto& [beginning, what] : others) {
    if (text.starts_with(beginning)) throw DataError(fmt::format("{}:1: this is {}", name, what));
  }
  // Names of columns may be of any letters, but of nothing below them.
  const std::string_view first = text.substr(0, line_size(text));
  if (std::any_of(first.begin(), first.end(), [&](char c) {
        return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\r' && c != '\n' &&
               c != delimiter;
      })) {
    throw DataError(fmt::format(
        "{}:1: this is not a text table: control characters are in its first line", name));
  }
}

}  // namespace

void read_csv(std::string_view text, const std::string& name, const CsvDialect& dialect,
              const std::function<void(const CsvRow&)>& row) {
  check_is_text(text, name, dialect.delimiter);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // UTF-8's byte order mark
  RowParser parser(dialect.delimiter);
  CsvRow current;
  bool between_rows = true;
  const auto hand_out = [&] {
    between_rows = true;
    current.fields = parser.fields();
    if (!current.fields.empty()) row(current);
  };
  while (!text.empty()) {
    const std::string_view line = text.substr(0, line_size(text));
    text.remove_prefix(line.size());
    ++current.last_line;
    if (between_rows) {
      if (!dialect.comment.empty() && line.starts_with(dialect.comment)) continue;
      current.line = current.last_line;
    }
    between_rows = false;
    if (parser.feed(line)) hand_out();
  }
  if (!parser.finish()) {
    throw DataError(
        fmt::format("{}:{}: a quote in this row is never closed: the file is cut short or damaged",
                    name, current.line));
  }
  if (!between_rows) hand_out();
}

std::string csv_line(std::span<const std::string> fields) {
  std::string line;
  for (const std::string& field : fields) {
    if (!line.empty()) line += ',';
    const std::size_t from = line.size();
    line.resize(from + csv_write(nullptr, 0, field.data(), field.size()));
    csv_write(line.data() + from, line.size() - from, field.data(), field.size());
  }
  return line + "\n";
}

}  // namespace forecost
