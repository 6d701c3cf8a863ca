#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace forecost {

// The frames of a journal, as bytes:
//
//   magic "FCJ1" | kind, 1 byte | length, 4 | CRC-32 of these 9 bytes, 4 | payload | CRC-32 of it,
//   4
//
// Numbers are little-endian. The header has a checksum of its own: a changed length must not look
// like a record that a kill cut short.

/// One record framed.
std::string frame(char kind, std::string_view payload);

/// Calls `record(kind, payload, offset)` for each whole record of a journal's bytes. A cut last
/// record is left out: one that ends early (a kill), or whose end is zeros up to the end of the
/// file (a power failure after the file grew). Anything else throws DataError that names `file` and
/// the offset. Returns the number of bytes that were read as whole records.
std::size_t for_each_frame(
    std::string_view bytes, const std::string& file,
    const std::function<void(char kind, std::string_view payload, std::size_t offset)>& record);

}  // namespace forecost
