#include "data/corpus/frames.hpp"

#include <cstdint>
#include <stdexcept>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/hash.hpp"

namespace forecost {

namespace {

constexpr std::string_view magic = "FCJ1";
constexpr std::size_t checked_header = 4 + 1 + 4;
constexpr std::size_t header_size = checked_header + 4;
constexpr std::size_t trailer_size = 4;
/// Fewer zeros at the end of a file can be an ordinary record with one damaged byte.
constexpr std::size_t power_failure_zeros = 8;

void put_u32(std::string& to, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) to += static_cast<char>(value >> shift & 0xFF);
}

std::uint32_t get_u32(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << 8 * i;
  }
  return value;
}

}  // namespace

std::string frame(char kind, std::string_view payload) {
  if (payload.size() > UINT32_MAX) throw std::length_error("a journal record of over 4 GB");
  std::string bytes(magic);
  bytes += kind;
  put_u32(bytes, static_cast<std::uint32_t>(payload.size()));
  put_u32(bytes, crc32_of(bytes));
  bytes += payload;
  put_u32(bytes, crc32_of(payload));
  return bytes;
}

std::size_t for_each_frame(std::string_view bytes, const std::string& file,
                           const std::function<void(char, std::string_view, std::size_t)>& record) {
  const std::size_t last = bytes.find_last_not_of('\0');
  const std::size_t zeros_from = last == std::string_view::npos ? 0 : last + 1;
  const bool zeros_at_end = bytes.size() - zeros_from >= power_failure_zeros;

  std::size_t at = 0;
  while (at < bytes.size()) {
    const std::string_view rest = bytes.substr(at);
    const auto damaged = [&](const char* what) {
      return DataError(
          fmt::format("{}: {} at byte {}: the journal is damaged; keep the file and "
                      "restore it from a copy, or move it away to go on without it",
                      file, what, at));
    };
    if (rest.size() < header_size) {
      // A cut header still begins as a header does.
      const std::string_view start = rest.substr(0, magic.size());
      if (start == magic.substr(0, start.size()) || zeros_at_end) {
        break;
      }
      throw damaged("no record begins");
    }
    if (rest.substr(0, magic.size()) != magic ||
        get_u32(rest.substr(checked_header)) != crc32_of(rest.substr(0, checked_header))) {
      if (zeros_at_end && zeros_from < at + header_size) break;
      throw damaged("a record's header is wrong");
    }
    const std::size_t length = get_u32(rest.substr(magic.size() + 1));
    const std::size_t size = header_size + length + trailer_size;
    if (rest.size() < size) break;
    const std::string_view payload = rest.substr(header_size, length);
    if (get_u32(rest.substr(header_size + length)) != crc32_of(payload)) {
      if (zeros_at_end && zeros_from < at + size) break;
      throw damaged("a record's checksum is wrong");
    }
    record(rest[magic.size()], payload, at);
    at += size;
  }
  return at;
}

}  // namespace forecost
