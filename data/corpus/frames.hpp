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
/// file (a power failure after the file grew). Anything else is told to `damage`, and the reading
/// goes on at the next whole record; without `damage` it throws DataError that names `file` and the
/// offset.
void for_each_frame(
    std::string_view bytes, const std::string& file,
    const std::function<void(char kind, std::string_view payload, std::size_t offset)>& record,
    const std::function<void(const std::string& line)>& damage = {});

}  // namespace forecost
