#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/corpus/import_csv.hpp"
#include "data/device.hpp"
#include "data/measurement.hpp"

// What a mapping file says (docs/import.md), checked as far as that goes without a table.

namespace forecost {

/// Where one value of a row comes from: a constant, a column or an expression over columns.
template <class T>
struct ImportSource {
  std::optional<T> constant;
  std::string column;                             ///< if there is no constant; or
  std::string expression;                         ///< the text of an Expression
  std::vector<std::pair<std::string, T>> values;  ///< of the column's texts; empty: as they stand
  std::optional<T> otherwise;                     ///< of any other text
  std::string place;                              ///< "MAP.toml:12", for messages
};

/// Integers, truth values and names of enumerations.
struct ImportInteger : ImportSource<std::int64_t> {
  std::int64_t min = std::numeric_limits<std::int64_t>::min(),
               max = std::numeric_limits<std::int64_t>::max();
};

struct ImportNumber : ImportSource<double> {
  double divisor = 1, factor = 1;  ///< that make the table's unit ours; one of them is 1
};

using ImportText = ImportSource<std::string>;

/// How the parameters of one operator follow from a row.
struct ImportLayer {
  struct Parameter {
    std::vector<std::size_t> indices;  ///< more than one of `kernel`, `side`, ...
    ImportInteger value;
  };
  const Operator* op = nullptr;
  std::vector<std::int64_t> defaults;  ///< one per parameter
  std::vector<bool> given;             ///< the parameters that the mapping sets
  std::vector<Parameter> parameters;
  static constexpr std::int64_t same_padding = -1;
  std::optional<ImportInteger> padding;  ///< `same_padding`, or zeros on each of four sides
};

/// A field of a Measurement with a unit.
struct ImportQuantity {
  std::string_view name;
  double& (*of)(Measurement& row);
  ImportNumber value;
};

/// A field of a Measurement that counts.
struct ImportCount {
  std::int64_t& (*of)(Measurement& row);
  ImportInteger value;
};

struct ImportMapping {
  std::string file;    ///< name without directories
  std::string text;    ///< whole content
  std::string name;    ///< of the table
  std::string source;  ///< where the table is from; may be empty, as the licence
  std::string licence;
  CsvDialect csv;

  ImportInteger op;  ///< index of `layers`
  std::vector<ImportLayer> layers;
  ImportInteger pass, dtype, optimizer, cache, policy;
  std::vector<ImportQuantity> quantities;
  bool has_median = false;  ///< else the mean stands for it
  ImportInteger protocol, status;
  std::vector<ImportCount> counts;
  std::optional<ImportText> implementation, reason;

  std::optional<ImportInteger> device;  ///< index of `devices`, if the mapping tells
  std::vector<Device> devices;
  std::optional<ImportText> uuid, host;
  std::vector<std::pair<std::string, ImportText>> facts;  ///< of the environment

  struct Filter {
    std::string column;
    std::vector<std::string> values;
    std::string place;
  };
  std::vector<Filter> filters;  ///< a row stays if it passes all of them,
  struct FilterExpression {
    std::string text, place;
  };
  std::optional<FilterExpression> filter_expression;  ///< and this is not 0

  enum class Repeats : std::uint8_t { refuse, in_order, column };
  Repeats repeats = Repeats::refuse;
  std::optional<ImportInteger> replicate;
};

/// `text` is the content of `file`. Throws UsageError "FILE:LINE: ..." for the first mistake.
ImportMapping parse_import_mapping(std::string_view text, const std::filesystem::path& file);
/// NAME of a shipped mapping (configs/import/NAME.toml) or the path of a file.
ImportMapping find_import_mapping(std::string_view name_or_file);

}  // namespace forecost
