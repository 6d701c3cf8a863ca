#include "data/toml.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "core/file.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kind_name(TomlValue::Kind kind) {
  constexpr std::array<std::string_view, 7> names{
      "a boolean", "an integer", "a number", "a text", "an array", "a table", "a date or time"};
  return names[static_cast<std::size_t>(kind)];
}

[[noreturn]] void wrong_type(const TomlValue& value, std::string_view expected) {
  value.fail(fmt::format("expected {}, found {}", expected, kind_name(value.kind)));
}

/// [dense] may be there once, [[dense]] more often; toml++ tells only that it is there again.
std::string bracket_hint(std::string_view what) {
  const std::size_t end = what.rfind('\''), begin = end == 0 ? 0 : what.rfind('\'', end - 1);
  if (what.find("cannot redefine existing table") == std::string_view::npos ||
      end == std::string_view::npos || begin == std::string_view::npos) {
    return {};
  }
  const std::string_view name = what.substr(begin + 1, end - begin - 1);
  return fmt::format("; each of several tables of this name begins with [[{}]]", name);
}

}  // namespace

/// Copies toml++'s tree into ours, which needs no heavy header to be read.
struct TomlReader {
  std::shared_ptr<const std::string> file;

  TomlValue value(const toml::node& node, std::string key) const {
    TomlValue out;
    out.file = file;
    out.line = static_cast<std::int64_t>(node.source().begin.line);
    out.key = std::move(key);
    if (const auto* table = node.as_table()) {
      out.kind = TomlValue::Kind::table;
      // toml++ sorts keys; ours stand as in the file.
      std::vector<std::pair<std::string, const toml::node*>> entries;
      for (const auto& [name, item] : *table) entries.emplace_back(std::string(name.str()), &item);
      std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
        const auto& x = a.second->source().begin;
        const auto& y = b.second->source().begin;
        return x.line != y.line ? x.line < y.line : x.column < y.column;
      });
      for (const auto& [name, item] : entries) {
        out.keys_.push_back(name);
        out.items_.push_back(value(*item, name));
      }
    } else if (const auto* array = node.as_array()) {
      out.kind = TomlValue::Kind::array;
      for (const auto& item : *array) out.items_.push_back(value(item, out.key));
    } else if (const auto boolean = node.value_exact<bool>()) {
      out.kind = TomlValue::Kind::boolean;
      out.boolean_ = *boolean;
    } else if (const auto integer = node.value_exact<std::int64_t>()) {
      out.kind = TomlValue::Kind::integer;
      out.integer_ = *integer;
      out.number_ = static_cast<double>(*integer);
    } else if (const auto number = node.value_exact<double>()) {
      out.kind = TomlValue::Kind::number;
      out.number_ = *number;
    } else if (const auto text = node.value_exact<std::string>()) {
      out.kind = TomlValue::Kind::text;
      out.text_ = *text;
    } else {
      out.kind = TomlValue::Kind::other;
    }
    return out;
  }
};

void TomlValue::fail(std::string_view message) const {
  const std::string name = key.empty() ? "" : fmt::format("'{}': ", key);
  throw UsageError(fmt::format("{}:{}: {}{}", *file, line, name, message));
}

bool TomlValue::as_boolean() const {
  if (kind != Kind::boolean) wrong_type(*this, "true or false");
  return boolean_;
}

std::int64_t TomlValue::as_integer(std::int64_t min, std::int64_t max) const {
  std::int64_t value = integer_;
  if (kind == Kind::number && number_ == std::trunc(number_) && std::fabs(number_) < 0x1p53) {
    value = static_cast<std::int64_t>(number_);
  } else if (kind == Kind::number) {
    fail(fmt::format("expected an integer, found {}", number_));
  } else if (kind != Kind::integer) {
    wrong_type(*this, "an integer");
  }
  if (value < min || value > max) {
    const bool open = max == std::numeric_limits<std::int64_t>::max();
    fail(open ? fmt::format("expected an integer of at least {}, found {}", min, value)
              : fmt::format("expected an integer from {} to {}, found {}", min, max, value));
  }
  return value;
}

double TomlValue::as_number(double min, double max) const {
  if (kind != Kind::integer && kind != Kind::number) wrong_type(*this, "a number");
  if (!std::isfinite(number_)) fail(fmt::format("expected a finite number, found {}", number_));
  if (!(number_ >= min && number_ <= max)) {
    fail(std::isinf(max)
             ? fmt::format("expected a number of at least {}, found {}", min, number_)
             : fmt::format("expected a number from {} to {}, found {}", min, max, number_));
  }
  return number_;
}

const std::string& TomlValue::as_text() const {
  if (kind != Kind::text) wrong_type(*this, "a text in quotes");
  return text_;
}

std::span<const TomlValue> TomlValue::as_list() const {
  return kind == Kind::array ? as_array() : std::span<const TomlValue>(this, 1);
}

std::span<const TomlValue> TomlValue::as_array() const {
  if (kind != Kind::array) wrong_type(*this, "an array");
  if (items_.empty()) fail("expected at least one item, found an empty array");
  return items_;
}

const TomlValue* TomlValue::find(std::string_view name) const {
  if (kind != Kind::table) wrong_type(*this, "a table");
  const auto at = std::find(keys_.begin(), keys_.end(), name);
  return at == keys_.end() ? nullptr : &items_[static_cast<std::size_t>(at - keys_.begin())];
}

const TomlValue& TomlValue::at(std::string_view name) const {
  const TomlValue* value = find(name);
  if (value == nullptr) fail(fmt::format("expected a key '{}' here", name));
  return *value;
}

std::span<const TomlValue> TomlValue::tables(std::string_view name) const {
  const TomlValue* value = find(name);
  if (value == nullptr) return {};
  const auto list = value->as_list();
  for (const TomlValue& item : list) {
    if (!item.is_table()) wrong_type(item, "a table");
  }
  return list;
}

void TomlValue::only(std::span<const std::string> known) const {
  if (kind != Kind::table) wrong_type(*this, "a table");
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (std::find(known.begin(), known.end(), keys_[i]) != known.end()) continue;
    throw UsageError(
        fmt::format("{}:{}: {}", *file, items_[i].line, unknown_name("key", keys_[i], known)));
  }
}

void TomlValue::only(std::initializer_list<std::string_view> known) const {
  only(std::vector<std::string>(known.begin(), known.end()));
}

bool TomlValue::boolean(std::string_view name, bool fallback) const {
  const TomlValue* value = find(name);
  return value == nullptr ? fallback : value->as_boolean();
}

std::int64_t TomlValue::integer(std::string_view name, std::int64_t fallback, std::int64_t min,
                                std::int64_t max) const {
  const TomlValue* value = find(name);
  return value == nullptr ? fallback : value->as_integer(min, max);
}

double TomlValue::number(std::string_view name, double fallback, double min, double max) const {
  const TomlValue* value = find(name);
  return value == nullptr ? fallback : value->as_number(min, max);
}

std::string TomlValue::text(std::string_view name, std::string_view fallback) const {
  const TomlValue* value = find(name);
  return value == nullptr ? std::string(fallback) : value->as_text();
}

TomlValue load_toml(const fs::path& file) {
  if (!fs::exists(file)) throw UsageError(fmt::format("{}: no such file", file.string()));
  return parse_toml(read_text(file), file.string());
}

TomlValue parse_toml(std::string_view text, std::string_view name) {
  const TomlReader reader{std::make_shared<const std::string>(name)};
  try {
    TomlValue root = reader.value(toml::parse(text, name), "");
    root.line = std::max<std::int64_t>(root.line, 1);
    return root;
  } catch (const toml::parse_error& error) {
    std::string what(error.description());
    std::replace(what.begin(), what.end(), '\n', ' ');
    what += bracket_hint(what);
    throw UsageError(
        fmt::format("{}:{}: malformed TOML: {}", name, error.source().begin.line, what));
  }
}

}  // namespace forecost
