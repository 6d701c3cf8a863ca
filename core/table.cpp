#include "core/table.hpp"

#include <algorithm>
#include <stdexcept>

namespace forecost {

namespace {

/// Columns on a terminal: bytes that do not continue a UTF-8 sequence.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

TextTable::TextTable(std::vector<std::string> headings) : headings_(std::move(headings)) {
  for (auto& heading : headings_) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
  }
}

void TextTable::add(std::vector<std::string> cells) {
  if (cells.size() != headings_.size())
    throw std::logic_error("a table row has a wrong cell count");
  rows_.push_back(std::move(cells));
}

void TextTable::rule() { rows_.emplace_back(); }

std::string TextTable::str() const {
  std::vector<std::size_t> widths;
  for (const auto& heading : headings_) widths.push_back(width(heading));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::size_t total = 2 * (widths.size() - 1);
  for (const auto w : widths) total += w;

  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string pad(widths[i] - width(cells[i]), ' ');
      out += (i > 0 ? "  " : "") + (right_[i] ? pad + cells[i] : cells[i] + pad);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    text += out + "\n";
  };
  line(headings_);
  text += std::string(total, '-') + "\n";
  for (const auto& row : rows_) {
    if (row.empty()) {
      text += std::string(total, '-') + "\n";
    } else {
      line(row);
    }
  }
  return text;
}

}  // namespace forecost
