#include <algorithm>
#include <utility>

#include "api/answer_json.h"
#include "api/answer_writers.h"
#include "api/chunk_stream.h"
#include "base/check.h"

// POST /v1/completions (spec: HTTP interface, section 5).
namespace di {
namespace {

constexpr std::string_view kTextCompletion = "text_completion";

// The old shape of log-probabilities: lists side by side.
class OldLogprobs {
  public:
    // `offset`: where the token begins in the text of the choice, in characters.
    void add(std::string_view bytes, std::optional<double> logprob, const std::vector<TopLogprob>& top, int64_t offset) {
        const std::string text = token_text(bytes);
        tokens_.push_back(json_string(text));
        token_logprobs_.push_back(logprob ? logprob_value(*logprob) : JsonValue());
        text_offset_.push_back(JsonValue::integer(offset));
        if (!logprob) {
            top_logprobs_.emplace_back();
            return;
        }
        // Different tokens may read alike: the likelier stays. The token itself is always there.
        JsonValue map = JsonValue::object();
        for (const TopLogprob& other : top) {
            const std::string name = token_text(other.bytes);
            if (map.find(name) == nullptr) {
                map.set(name, logprob_value(other.logprob));
            }
        }
        if (map.find(text) == nullptr) {
            map.set(text, logprob_value(*logprob));
        }
        top_logprobs_.push_back(std::move(map));
    }

    [[nodiscard]] bool is_empty() const { return tokens_.empty(); }

    [[nodiscard]] JsonValue take() {
        JsonObject object;
        object.value("tokens", JsonValue::array(std::move(tokens_)));
        object.value("token_logprobs", JsonValue::array(std::move(token_logprobs_)));
        object.value("top_logprobs", JsonValue::array(std::move(top_logprobs_)));
        object.value("text_offset", JsonValue::array(std::move(text_offset_)));
        return object.take();
    }

  private:
    JsonValue::Array tokens_;
    JsonValue::Array token_logprobs_;
    JsonValue::Array top_logprobs_;
    JsonValue::Array text_offset_;
};

// Counts characters of tokens that may each hold a part of one.
class OffsetCounter {
  public:
    // Where the token begins; one that begins inside a character, where that character does.
    int64_t next(std::string_view bytes) {
        const bool is_inside = !bytes.empty() && is_continuation(bytes.front()) && count_ > 0;
        const int64_t offset = is_inside ? count_ - 1 : count_;
        count_ += std::count_if(bytes.begin(), bytes.end(), [](char byte) { return !is_continuation(byte); });
        return offset;
    }

  private:
    static bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

    int64_t count_ = 0;
};

class CompletionsWriter : public ChunkWriter {
  public:
    CompletionsWriter(const Request& request, AnswerHead head, const AnswerWriterOptions& options)
        : ChunkWriter(request, std::move(head), {.chunk = kTextCompletion, .whole = kTextCompletion}, options.has_events),
          echoes_(request.echoes_prompt),
          wants_logprobs_(request.sampling.wants_logprobs),
          wants_prompt_logprobs_(request.sampling.prompt_logprob_count.has_value()),
          returns_token_ids_(request.returns_token_ids),
          prompt_count_(request.raw_prompts.size()),
          choices_(static_cast<size_t>(head_.choice_count)) {
        DI_CHECK(prompt_count_ > 0 && choices_.size() % prompt_count_ == 0, "every prompt has the same number of choices");
    }

    void begin(StreamEvents& events) override {
        if (!has_events()) {
            return;
        }
        for (int32_t i = 0; i < head_.choice_count; ++i) {
            Choice& known = choices_[static_cast<size_t>(i)];
            const bool has_echo = echoes_ && prompt_of(i) < head_.echo_texts.size();
            if (!has_echo && !has_prompt_details()) {
                continue;
            }
            const std::string text = has_echo ? head_.echo_texts[prompt_of(i)] : std::string();
            JsonObject chunk = choice(i, text, echo_logprobs(i, known.offset));
            add_prompt_details(chunk, i);
            add_token_ids(chunk, {});
            send(chunk.take(), std::nullopt, events);
        }
    }

    void delta(const AnswerDelta& delta, StreamEvents& events) override {
        DI_CHECK(delta.kind == AnswerDelta::Kind::kContent, "completions are text alone");
        Choice& known = choices_[static_cast<size_t>(delta.choice)];
        known.record.add(delta);
        if (!has_events()) {
            return;
        }
        OldLogprobs logprobs;
        for (const LogprobEntry& entry : delta.logprobs) {
            logprobs.add(entry.bytes, entry.logprob, entry.top, known.offset.next(entry.bytes));
        }
        JsonObject chunk = choice(delta.choice, delta.text, logprobs.is_empty() ? JsonValue() : logprobs.take());
        add_token_ids(chunk, delta.token_ids);
        send(chunk.take(), delta.usage, events);
    }

    void end_choice(const ChoiceEnd& end, StreamEvents& events) override {
        choices_[static_cast<size_t>(end.choice)].record.add(end);
        if (!has_events()) {
            return;
        }
        JsonObject chunk = choice(end.choice, "", JsonValue(), &end);
        add_token_ids(chunk, end.token_ids);
        send_last(chunk.take(), end.usage, events);
    }

  private:
    struct Choice {
        ChoiceRecord record{};
        OffsetCounter offset{};
    };

    [[nodiscard]] size_t prompt_of(int32_t choice_index) const {
        return static_cast<size_t>(choice_index) / (choices_.size() / prompt_count_);
    }

    [[nodiscard]] static JsonObject choice(int32_t index, std::string_view text, JsonValue logprobs,
                                           const ChoiceEnd* end = nullptr) {
        JsonObject object;
        object.integer("index", index).text("text", text).value("logprobs", std::move(logprobs));
        object.text_or_null("finish_reason", end == nullptr ? "" : finish_reason_text(end->end));
        object.value("stop_reason", end == nullptr ? JsonValue() : stop_reason_value(*end));
        return object;
    }

    void add_token_ids(JsonObject& chunk, const std::vector<int32_t>& ids) const {
        if (returns_token_ids_) {
            chunk.value("token_ids", json_integers(ids));
        }
    }

    // What else the first chunk of a choice and the whole one tell of the prompt.
    [[nodiscard]] bool has_prompt_details() const { return returns_token_ids_ || wants_prompt_logprobs_; }

    void add_prompt_details(JsonObject& chunk, int32_t index) const {
        const size_t prompt = prompt_of(index);
        if (returns_token_ids_ && prompt < head_.prompt_token_ids.size()) {
            chunk.value("prompt_token_ids", json_integers(head_.prompt_token_ids[prompt]));
        }
        if (wants_prompt_logprobs_ && prompt < head_.prompt_logprobs.size()) {
            chunk.value("prompt_logprobs", prompt_logprobs_value(head_.prompt_logprobs[prompt]));
        }
    }

    // [null, {"<id>": {"logprob", "rank", "decoded_token"}, ...}, ...]
    [[nodiscard]] static JsonValue prompt_logprobs_value(const std::vector<PromptLogprob>& prompt) {
        JsonValue::Array items;
        for (const PromptLogprob& token : prompt) {
            if (!token.logprob) {
                items.emplace_back();
                continue;
            }
            JsonValue map = JsonValue::object();
            for (size_t i = 0; i < token.top.size(); ++i) {
                const TopLogprob& other = token.top[i];
                JsonObject entry;
                entry.value("logprob", logprob_value(other.logprob)).integer("rank", static_cast<int64_t>(i) + 1);
                map.set(fmt::format("{}", other.token_id), entry.text("decoded_token", token_text(other.bytes)).take());
            }
            const std::string own = fmt::format("{}", token.token_id);
            if (map.find(own) == nullptr) {
                JsonObject entry;
                entry.value("logprob", logprob_value(*token.logprob)).null("rank");
                map.set(own, entry.text("decoded_token", token_text(token.bytes)).take());
            }
            items.push_back(std::move(map));
        }
        return JsonValue::array(std::move(items));
    }

    // Log-probabilities of the prompt that is repeated, or null.
    [[nodiscard]] JsonValue echo_logprobs(int32_t index, OffsetCounter& offset) const {
        OldLogprobs logprobs;
        add_echo(index, offset, logprobs);
        return logprobs.is_empty() ? JsonValue() : logprobs.take();
    }

    void add_echo(int32_t index, OffsetCounter& offset, OldLogprobs& logprobs) const {
        if (!echoes_ || !wants_logprobs_ || prompt_of(index) >= head_.prompt_logprobs.size()) {
            return;
        }
        for (const PromptLogprob& token : head_.prompt_logprobs[prompt_of(index)]) {
            logprobs.add(token.bytes, token.logprob, token.top, offset.next(token.bytes));
        }
    }

    [[nodiscard]] JsonValue whole_choice(int32_t index) const override {
        const ChoiceRecord& record = choices_[static_cast<size_t>(index)].record;
        DI_CHECK(record.end.has_value(), "a body is asked for behind the end");
        std::string text;
        if (echoes_ && prompt_of(index) < head_.echo_texts.size()) {
            text = head_.echo_texts[prompt_of(index)];
        }
        text += record.content;
        OffsetCounter offset;
        OldLogprobs logprobs;
        add_echo(index, offset, logprobs);
        for (const LogprobEntry& entry : record.logprobs) {
            logprobs.add(entry.bytes, entry.logprob, entry.top, offset.next(entry.bytes));
        }
        JsonObject object = choice(index, text, logprobs.is_empty() ? JsonValue() : logprobs.take(), &*record.end);
        add_prompt_details(object, index);
        add_token_ids(object, record.token_ids);
        return object.take();
    }

    bool echoes_;
    bool wants_logprobs_;
    bool wants_prompt_logprobs_;
    bool returns_token_ids_;
    size_t prompt_count_;
    std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_completions_writer(const Request& request, AnswerHead head,
                                                      const AnswerWriterOptions& options) {
    return std::make_unique<CompletionsWriter>(request, std::move(head), options);
}

}  // namespace di
