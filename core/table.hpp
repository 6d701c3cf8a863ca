#pragma once

#include <string>
#include <vector>

namespace forecost {

/// An aligned text table for people. Columns whose heading starts with '>' are right-aligned.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> headings);
  /// As many cells as there are headings.
  void add(std::vector<std::string> cells);
  /// A thin rule before the next row (totals).
  void rule();
  bool empty() const { return rows_.empty(); }
  /// Heading, rule and rows, two spaces between columns, no trailing spaces, newline at the end.
  std::string str() const;

 private:
  std::vector<std::string> headings_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

}  // namespace forecost
