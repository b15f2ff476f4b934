// Ids of any order through the streaming decoder: the pieces joined are the decode of all, and always valid UTF-8.
#include <vector>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/unicode.h"

namespace {

// Every byte as a token of its own: any byte string can come out.
std::string byte_tokenizer_json() {
    std::string vocabulary;
    int next_standin = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
        const bool is_itself = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
        const int code_point = is_itself ? byte : next_standin++;
        vocabulary += fmt::format("{}\"\\u{:04x}\":{}", vocabulary.empty() ? "" : ",", code_point, byte);
    }
    return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,)"
           R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false},"post_processor":null,)"
           R"("decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{)" +
           vocabulary + R"(},"merges":[]}})";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const auto tokenizer = di::Tokenizer::parse(byte_tokenizer_json());
    DI_CHECK(tokenizer.has_value(), tokenizer ? "" : tokenizer.error().text);
    const std::vector<int32_t> ids(data, data + size);
    di::Detokenizer stream(*tokenizer);
    std::string joined;
    for (const int32_t id : ids) {
        const std::string piece = stream.push(id);
        DI_CHECK(di::is_valid_utf8(piece), "a piece is not valid UTF-8");
        joined += piece;
    }
    joined += stream.finish();
    DI_CHECK(joined == tokenizer->decode(ids), "the pieces differ from the whole");
    return 0;
}
