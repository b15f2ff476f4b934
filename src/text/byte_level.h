#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace di {

// Byte-level vocabularies spell every byte as one printable character: 0x21..0x7E, 0xA1..0xAC and 0xAE..0xFF stand for
// themselves, the other 68 bytes, in increasing order, are U+0100 onward (space is U+0120).

// The stand-in character of a byte, as UTF-8.
[[nodiscard]] std::string_view stand_in(uint8_t byte);

// The bytes that a piece of the vocabulary spells. A piece with any character that is no stand-in (`<｜User｜>`) is
// taken as it is.
[[nodiscard]] std::string bytes_of_piece(std::string_view piece);

// The inverse: how the vocabulary spells these bytes.
[[nodiscard]] std::string piece_of_bytes(std::string_view bytes);

}  // namespace di
