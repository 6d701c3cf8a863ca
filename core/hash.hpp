#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace forecost {

class OpenFile;

/// SHA-256 as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);
/// The same of a file's content, read in pieces; throws EnvironmentError if it cannot be read.
std::string sha256_hex_of_file(const OpenFile& file);
std::string sha256_hex_of_file(const std::filesystem::path& file);
/// The first 12 hexadecimal digits of the SHA-256: an identifier for devices, environments, sweeps.
std::string short_id(std::string_view bytes);
/// The first 16 bytes of the SHA-256, for tables of millions of keys.
struct Hash128 {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};
Hash128 hash128(std::string_view bytes);
/// For std::unordered_map.
struct HashOfHash128 {
  std::size_t operator()(const Hash128& hash) const { return hash.low; }
};
/// The first 8 bytes of the SHA-256 as a number, for splits and seeds.
std::uint64_t hash64(std::string_view bytes);
/// CRC-32 (zlib's): finds every single-byte error in a journal record.
std::uint32_t crc32_of(std::string_view bytes);

}  // namespace forecost
