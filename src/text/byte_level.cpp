#include "text/byte_level.h"

#include <array>

#include "text/unicode.h"

namespace di {
namespace {

constexpr char32_t kStandInEnd = 0x100 + 68;  // one past the last stand-in

struct StandIns {
    std::array<std::string, 256> spelling;               // byte -> UTF-8 of its character
    std::array<int16_t, kStandInEnd> byte_of_character;  // -1: not a stand-in
};

bool stands_for_itself(int byte) { return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE; }

StandIns make_stand_ins() {
    StandIns table;
    table.byte_of_character.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
        const char32_t character = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
        append_utf8(table.spelling[static_cast<size_t>(byte)], character);
        table.byte_of_character[character] = static_cast<int16_t>(byte);
    }
    return table;
}

const StandIns& stand_ins() {
    static const StandIns table = make_stand_ins();
    return table;
}

}  // namespace

std::string_view stand_in(uint8_t byte) { return stand_ins().spelling[byte]; }

std::string bytes_of_piece(std::string_view piece) {
    const StandIns& table = stand_ins();
    std::string bytes;
    bytes.reserve(piece.size());
    std::string_view rest = piece;
    while (!rest.empty()) {
        const Utf8Step step = utf8_step(rest);
        if (step.kind != Utf8Step::Kind::kCharacter || step.code_point >= kStandInEnd ||
            table.byte_of_character[step.code_point] < 0) {
            return std::string(piece);
        }
        bytes.push_back(static_cast<char>(table.byte_of_character[step.code_point]));
        rest.remove_prefix(step.length);
    }
    return bytes;
}

std::string piece_of_bytes(std::string_view bytes) {
    std::string piece;
    for (const char byte : bytes) {
        piece += stand_in(static_cast<uint8_t>(byte));
    }
    return piece;
}

}  // namespace di
