#include "data/text.hpp"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/file.hpp"

namespace forecost {

namespace fs = std::filesystem;

namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7F;
}

/// Up to `most` bytes of the first line.
std::string first_line(const fs::path& file, std::size_t most) {
  std::ifstream in(file, std::ios::binary);
  std::string line;
  for (char c = 0; line.size() < most && in.get(c) && c != '\n';) line += c;
  return line;
}

}  // namespace

std::string shown(std::string_view text, std::size_t most) {
  std::size_t size = std::min(text.size(), most);
  while (size < text.size() && size > 0 && (text[size] & 0xC0) == 0x80) --size;  // no half letters
  std::string out;
  for (const char c : text.substr(0, size)) {
    if (is_control(c)) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + (size < text.size() ? "..." : "");
}

bool is_line(std::string_view text) {
  if (std::any_of(text.begin(), text.end(), is_control)) return false;
  if (std::none_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; })) return true;
  try {
    (void)nlohmann::json(text).dump();  // refuses what is no UTF-8
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

void check_text_output(const fs::path& file, std::string_view option, std::string_view kind,
                       const std::function<bool(const std::string& first_line)>& is_earlier) {
  check_output(file);
  if (!fs::exists(file)) return;
  constexpr std::size_t most = std::size_t{1} << 24;  // a line with very many samples
  if (fs::file_size(file) > 0 && !is_earlier(first_line(file, most))) {
    throw UsageError(fmt::format("{} {}: it exists and is no {}: name another file", option,
                                 file.string(), kind));
  }
}

}  // namespace forecost
