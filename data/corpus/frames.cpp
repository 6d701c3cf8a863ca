#include "data/corpus/frames.hpp"

#include <cstdint>
#include <stdexcept>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/hash.hpp"
#include "core/units.hpp"

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

namespace {

bool header_is_whole(std::string_view rest) {
  return rest.size() >= header_size && rest.substr(0, magic.size()) == magic &&
         get_u32(rest.substr(checked_header)) == crc32_of(rest.substr(0, checked_header));
}

/// Where the next whole header begins, or the end.
std::size_t next_header(std::string_view bytes, std::size_t from) {
  for (std::size_t at = from; (at = bytes.find(magic, at)) != std::string_view::npos; ++at) {
    if (header_is_whole(bytes.substr(at))) return at;
  }
  return bytes.size();
}

}  // namespace

void for_each_frame(std::string_view bytes, const std::string& file,
                    const std::function<void(char, std::string_view, std::size_t)>& record,
                    const std::function<void(const std::string&)>& damage) {
  const std::size_t last = bytes.find_last_not_of('\0');
  const std::size_t zeros_from = last == std::string_view::npos ? 0 : last + 1;
  const bool zeros_at_end = bytes.size() - zeros_from >= power_failure_zeros;

  std::size_t at = 0;
  while (at < bytes.size()) {
    const std::string_view rest = bytes.substr(at);
    const auto damaged = [&](const char* what, std::size_t go_on_at) {
      if (!damage) {
        throw DataError(
            fmt::format("{}: {} at byte {}: the journal is damaged; restore it from a copy, or "
                        "save the rest by "
                        "'forecost corpus merge RUN_DIR -o OTHER.h5 --salvage'",
                        file, what, at));
      }
      damage(fmt::format("{}: {} at byte {}: {} lost", file, what, at,
                         format_counted(go_on_at - at, "byte")));
      at = go_on_at;
    };
    if (rest.size() < header_size) {
      // A cut header still begins as a header does.
      const std::string_view start = rest.substr(0, magic.size());
      if (start == magic.substr(0, start.size()) || zeros_at_end) return;
      damaged("no record begins", bytes.size());
      continue;
    }
    if (!header_is_whole(rest)) {
      if (zeros_at_end && zeros_from < at + header_size) return;
      damaged("a record's header is wrong", next_header(bytes, at + 1));
      continue;
    }
    const std::size_t length = get_u32(rest.substr(magic.size() + 1));
    const std::size_t size = header_size + length + trailer_size;
    if (rest.size() < size) return;
    const std::string_view payload = rest.substr(header_size, length);
    if (get_u32(rest.substr(header_size + length)) != crc32_of(payload)) {
      if (zeros_at_end && zeros_from < at + size) return;
      damaged("a record's checksum is wrong", at + size);
      continue;
    }
    record(rest[magic.size()], payload, at);
    at += size;
  }
}

}  // namespace forecost
