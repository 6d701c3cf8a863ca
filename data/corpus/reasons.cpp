#include "data/corpus/reasons.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

#include <fmt/format.h>

namespace forecost {

namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// A text as what stands before, between and behind its numbers.
struct Split {
  std::vector<std::string> between{""};
  std::vector<std::string> numbers;
};

/// Where the number that begins at `from` ends: "4", "10,000", "0.5", "1e-3".
std::size_t end_of_number(const std::string& text, std::size_t from) {
  const auto digit_at = [&](std::size_t i) { return i < text.size() && is_digit(text[i]); };
  std::size_t end = from;
  while (digit_at(end) || ((text[end] == ',' || text[end] == '.') && digit_at(end + 1))) ++end;
  if (text[end] == 'e') {
    const std::size_t sign = text[end + 1] == '-' || text[end + 1] == '+' ? 1 : 0;
    if (digit_at(end + 1 + sign)) {
      end += 1 + sign;
      while (digit_at(end)) ++end;
    }
  }
  return end;
}

/// Digits within words, such as "bf16" and "5x5", are no numbers.
Split split(const std::string& text) {
  Split parts;
  for (std::size_t i = 0; i < text.size();) {
    const bool begins = is_digit(text[i]) && (i == 0 || !is_of_word(text[i - 1]));
    const std::size_t end = begins ? end_of_number(text, i) : i + 1;
    if (begins && (end == text.size() || !is_of_word(text[end]))) {
      parts.numbers.push_back(text.substr(i, end - i));
      parts.between.emplace_back();
    } else {
      parts.between.back() += text.substr(i, end - i);
    }
    i = end;
  }
  return parts;
}

double value_of(std::string number) {
  std::erase(number, ',');
  return std::strtod(number.c_str(), nullptr);
}

struct Range {
  std::string low, high;
  void take(const std::string& number) {
    if (low.empty() || value_of(number) < value_of(low)) low = number;
    if (high.empty() || value_of(number) > value_of(high)) high = number;
  }
  std::string text() const { return low == high ? low : fmt::format("{} to {}", low, high); }
};

}  // namespace

std::vector<ReasonCount> count_reasons(std::span<const Measurement> rows) {
  struct Group {
    std::vector<Range> ranges;
    std::int64_t rows = 0;
  };
  std::map<std::pair<Status, std::vector<std::string>>, Group> groups;
  for (const Measurement& row : rows) {
    if (row.status == Status::ok && row.reason.empty()) continue;
    const Split parts = split(row.reason);
    Group& group = groups[{row.status, parts.between}];
    group.ranges.resize(parts.numbers.size());
    for (std::size_t i = 0; i < parts.numbers.size(); ++i) group.ranges[i].take(parts.numbers[i]);
    ++group.rows;
  }
  std::vector<ReasonCount> counts;
  for (const auto& [key, group] : groups) {
    const auto& [status, between] = key;
    std::string reason = between[0];
    for (std::size_t i = 0; i < group.ranges.size(); ++i) {
      reason += group.ranges[i].text() + between[i + 1];
    }
    counts.push_back({status, std::move(reason), group.rows});
  }
  std::stable_sort(counts.begin(), counts.end(),
                   [](const ReasonCount& a, const ReasonCount& b) { return a.rows > b.rows; });
  return counts;
}

}  // namespace forecost
