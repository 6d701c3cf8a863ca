#include "core/error.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <new>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace forecost {

namespace {

/// Levenshtein distance.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row.back();
}

/// As people remember a name: "ResNet-50" is "resnet50".
std::string remembered(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) plain += static_cast<char>(std::tolower(byte));
  }
  return plain;
}

/// The known name that was meant; empty if none is close.
std::string meant(std::string_view name, std::span<const std::string> known) {
  const std::string asked = remembered(name);
  std::string closest;
  std::size_t least = std::string::npos;
  for (const std::string& candidate : known) {
    const std::string plain = remembered(candidate);
    const std::size_t distance = edit_distance(asked, plain);
    const bool mistyped = distance <= 2 && distance < asked.size();
    const bool shortened = asked.size() > 2 && plain.find(asked) != std::string::npos;
    if ((mistyped || shortened) && distance < least) {
      least = distance;
      closest = candidate;
    }
  }
  return closest;
}

}  // namespace

ExitCode exit_code_of(const std::exception& error) noexcept {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return ours->code();
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
      dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr) {
    return ExitCode::environment;
  }
  return ExitCode::internal;
}

std::string unknown_name(std::string_view kind, std::string_view name,
                         std::span<const std::string> known) {
  std::string text = fmt::format("unknown {} '{}'; known: {}", kind, name, fmt::join(known, ", "));
  if (const std::string closest = meant(name, known); known.size() > 3 && !closest.empty()) {
    text += fmt::format(" (did you mean '{}'?)", closest);
  }
  return text;
}

}  // namespace forecost
