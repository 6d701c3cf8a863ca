#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace forecost {

/// For messages: of one line, control characters escaped, cut after about `most` bytes.
std::string shown(std::string_view text, std::size_t most = 60);
/// Whether it is UTF-8 without control characters, as all texts of a corpus are.
bool is_line(std::string_view text);

/// What check_output() finds; also refuses, with UsageError, to replace anything that exists but an
/// empty file or one whose first line is accepted by `is_earlier`. `option` and `kind` are for the
/// message: "-o FILE: it exists and is no export".
void check_text_output(const std::filesystem::path& file, std::string_view option,
                       std::string_view kind,
                       const std::function<bool(const std::string& first_line)>& is_earlier);

}  // namespace forecost
