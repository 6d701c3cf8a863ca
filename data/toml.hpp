#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/enums.hpp"

namespace forecost {

/// One value of a TOML file and where it stands, so that every complaint can be one line
/// "FILE:LINE: 'key': what was expected" (UsageError). Reading is by asking: each accessor checks
/// type and range.
class TomlValue {
 public:
  enum class Kind : std::uint8_t { boolean, integer, number, text, array, table, other };

  Kind kind = Kind::table;
  std::string key;  ///< the key it was found under; items of an array have the array's
  std::shared_ptr<const std::string> file;
  std::int64_t line = 0;

  bool is_text() const { return kind == Kind::text; }
  bool is_array() const { return kind == Kind::array; }
  bool is_table() const { return kind == Kind::table; }
  bool is_integer() const { return kind == Kind::integer; }

  /// Throws UsageError "FILE:LINE: 'key': message".
  [[noreturn]] void fail(std::string_view message) const;

  bool as_boolean() const;
  /// In [min, max]; a number without a fraction (1e9) is one too.
  std::int64_t as_integer(std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                          std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  double as_number(double min = -std::numeric_limits<double>::infinity(),
                   double max = std::numeric_limits<double>::infinity()) const;
  const std::string& as_text() const;
  /// A value that stands for itself is a list of one.
  std::span<const TomlValue> as_list() const;
  std::span<const TomlValue> as_array() const;
  /// The names of an enumeration (core/enums.hpp); the error lists the known ones.
  template <class E>
  E as_enum() const {
    try {
      return parse_enum<E>(as_text());
    } catch (const UsageError& error) {
      fail(error.what());
    }
  }

  // --- of a table ---
  /// Keys in the order of the file.
  const std::vector<std::string>& keys() const { return keys_; }
  /// nullptr if absent.
  const TomlValue* find(std::string_view name) const;
  /// Throws UsageError if absent.
  const TomlValue& at(std::string_view name) const;
  /// The tables of [[name]], possibly none; of [name], one.
  std::span<const TomlValue> tables(std::string_view name) const;
  /// Refuses keys other than these: "unknown key 'x'; known: a, b (did you mean ..?)".
  void only(std::span<const std::string> known) const;
  void only(std::initializer_list<std::string_view> known) const;

  bool boolean(std::string_view name, bool fallback) const;
  std::int64_t integer(std::string_view name, std::int64_t fallback, std::int64_t min,
                       std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  double number(std::string_view name, double fallback, double min,
                double max = std::numeric_limits<double>::infinity()) const;
  std::string text(std::string_view name, std::string_view fallback) const;

 private:
  friend struct TomlReader;

  bool boolean_ = false;
  std::int64_t integer_ = 0;
  double number_ = 0;
  std::string text_;
  std::vector<std::string> keys_;  // of a table: keys_[i] names items_[i]
  std::vector<TomlValue> items_;
};

/// The root table. Throws UsageError for a file that is absent or malformed.
TomlValue load_toml(const std::filesystem::path& file);
/// `name` stands for the file in messages.
TomlValue parse_toml(std::string_view text, std::string_view name);

}  // namespace forecost
