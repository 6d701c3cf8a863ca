#include "data/corpus/import_expression.hpp"

#include <cctype>
#include <cmath>

#include <fmt/format.h>
#include <muParser.h>

#include "core/error.hpp"
#include "data/text.hpp"

namespace forecost {

namespace {

/// muParser takes a = b for an assignment, where a user means a == b.
bool assigns(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '=') continue;
    if (i + 1 < text.size() && text[i + 1] == '=') {
      ++i;
    } else if (i == 0 || (text[i - 1] != '<' && text[i - 1] != '>' && text[i - 1] != '!')) {
      return true;
    }
  }
  return false;
}

}  // namespace

Expression::Expression(const std::string& text) : parser_(std::make_unique<mu::Parser>()) {
  const auto fail = [&](std::string_view what) {
    throw UsageError(fmt::format("'{}': {}", shown(text, expression_shown), what));
  };
  if (assigns(text)) fail("expected ==, found =");
  try {
    parser_->ClearConst();  // a column may be called _e or _pi
    parser_->DefineFun("floor", static_cast<double (*)(double)>(std::floor));
    parser_->DefineFun("ceil", static_cast<double (*)(double)>(std::ceil));
    parser_->DefineFun("round", static_cast<double (*)(double)>(std::round));
    parser_->DefineFun("trunc", static_cast<double (*)(double)>(std::trunc));
    parser_->DefineFun("mod", static_cast<double (*)(double, double)>(std::fmod));
    parser_->SetExpr(text);
    for (const auto& [name, value] : parser_->GetUsedVar()) variables_.push_back(name);
    for (const auto& name : variables_) {  // 1e400 and 0x10 are names to muParser
      if (std::isdigit(static_cast<unsigned char>(name[0])) == 0) continue;
      fail(fmt::format("expected a finite decimal number or a column, found '{}'", shown(name)));
    }
    values_.resize(variables_.size(), 1);
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      parser_->DefineVar(variables_[i], &values_[i]);
    }
    parser_->Eval();
  } catch (const mu::Parser::exception_type& error) {
    fail(shown(error.GetMsg(), 2 * expression_shown));
  }
  if (parser_->GetNumResults() != 1) {
    fail(fmt::format("expected one value, found {}", parser_->GetNumResults()));
  }
}

Expression::Expression(Expression&&) noexcept = default;
Expression& Expression::operator=(Expression&&) noexcept = default;
Expression::~Expression() = default;

double Expression::operator()() const {
  try {
    return parser_->Eval();
  } catch (const mu::Parser::exception_type&) {  // of a value, since the text was evaluated before
    return std::nan("");
  }
}

std::string identifier_of(std::string_view column) {
  std::string name;
  for (const char c : column) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  if (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0) name.insert(0, "_");
  return name;
}

}  // namespace forecost
