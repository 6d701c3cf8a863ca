#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mu {
class Parser;
}

namespace forecost {

/// Bytes of an expression's text in messages.
inline constexpr std::size_t expression_shown = 100;

/// A formula over the columns of a table: numbers, + - * / ^, comparisons, && || ?:, and functions
/// (muParser's, and floor, ceil, round, trunc, mod). Variables are named by identifier_of().
class Expression {
 public:
  /// Throws UsageError that says what is wrong with the text, but not where the text is.
  explicit Expression(const std::string& text);
  Expression(Expression&&) noexcept;
  Expression& operator=(Expression&&) noexcept;
  ~Expression();

  const std::vector<std::string>& variables() const { return variables_; }
  /// One value per variable, to be set before each call.
  std::span<double> values() { return values_; }
  /// NaN or infinite where the formula has no value.
  double operator()() const;

 private:
  std::unique_ptr<mu::Parser> parser_;
  std::vector<std::string> variables_;
  std::vector<double> values_;  // the parser points to them
};

/// How an expression calls a column: what is no letter, digit or '_' becomes '_' ("Grid x":
/// Grid_x), and a '_' precedes a digit at the beginning.
std::string identifier_of(std::string_view column);

}  // namespace forecost
