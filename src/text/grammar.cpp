#include "text/grammar.h"

#include <dlpack/dlpack.h>
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "text/chat_tokens.h"
#include "text/limits.h"
#include "text/tool_call_mask.h"
#include "text/tool_grammar.h"
#include "text/trigger_mask.h"

// The only file that knows the grammar library. Its exceptions end here.
//
// The answer's end is a NUL character behind the root, spelled by a token of our own that no model has: the library then
// knows what follows the last piece (which makes masks up to a hundred times faster), and whether that token is allowed
// says whether the answer may end. Real tokens with a NUL are never allowed, and no grammar can ask for one.
//
// The marker of tool calls is a special token, which is no part of any answer. Grammars of calls have a vocabulary of their
// own, in which it is spelled by a control character that no other token has (tool_grammar.h).
namespace di {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kEnd = "\\u0000";
constexpr int kThreadsMax = 4;

// What all grammars of one vocabulary share. Immutable.
struct Vocabulary {
    std::optional<xgrammar::TokenizerInfo> info;
    std::optional<xgrammar::TokenizerInfo> call_info;    // for grammars of tool calls
    std::shared_ptr<const std::vector<bool>> opens_tag;  // by id: the token's text ends in `<`; with call_info
    int32_t size = 0;                                    // of the model; the id of our own end token
    std::optional<int32_t> marker_id;                    // of tool calls
    std::vector<int32_t> end_token_ids;

    [[nodiscard]] bool is_end(int32_t id) const {
        return std::find(end_token_ids.begin(), end_token_ids.end(), id) != end_token_ids.end();
    }
    [[nodiscard]] size_t words() const { return (static_cast<size_t>(size) + 31) / 32; }
    // The library's vocabulary has two more: our end token, and a stop token that it insists on and nobody uses.
    [[nodiscard]] int32_t library_size() const { return size + 2; }
};

xgrammar::TokenizerInfo library_vocabulary(const Tokenizer& tokenizer, const Vocabulary& vocabulary, bool has_marker) {
    std::vector<std::string> tokens(static_cast<size_t>(vocabulary.library_size()));
    const auto count = std::min<int64_t>(vocabulary.size, tokenizer.vocabulary_size());
    for (int32_t id = 0; id < count; ++id) {
        const std::string_view bytes = tokenizer.token_bytes(id);
        const bool is_text = !tokenizer.is_special(id) && !vocabulary.is_end(id) && id != vocabulary.marker_id &&
                             bytes.find('\0') == std::string_view::npos &&
                             (!has_marker || bytes.find(kMarkerStandIn) == std::string_view::npos);
        if (is_text) {
            tokens[static_cast<size_t>(id)] = bytes;  // empty ones are never allowed
        }
    }
    if (has_marker) {
        tokens[static_cast<size_t>(*vocabulary.marker_id)] = std::string(1, kMarkerStandIn);
    }
    tokens[static_cast<size_t>(vocabulary.size)] = std::string(1, '\0');
    return {tokens, xgrammar::VocabType::RAW, vocabulary.library_size(), std::vector<int32_t>{vocabulary.size + 1}};
}

std::shared_ptr<const std::vector<bool>> tag_openers(const Tokenizer& tokenizer, const Vocabulary& vocabulary) {
    auto openers = std::make_shared<std::vector<bool>>(static_cast<size_t>(vocabulary.size), false);
    const auto count = std::min<int64_t>(vocabulary.size, tokenizer.vocabulary_size());
    for (int32_t id = 0; id < count; ++id) {
        (*openers)[static_cast<size_t>(id)] = !tokenizer.is_special(id) && tokenizer.token_bytes(id).ends_with('<');
    }
    return openers;
}

class GrammarMask : public TokenMask {
  public:
    // `tokens`: of that vocabulary, those that `matcher` was compiled for; empty ones are never accepted.
    GrammarMask(std::shared_ptr<const Vocabulary> vocabulary, const std::vector<std::string>& tokens,
                xgrammar::GrammarMatcher matcher)
        : vocabulary_(std::move(vocabulary)), tokens_(tokens), matcher_(std::move(matcher)) {
        words_.resize((static_cast<size_t>(vocabulary_->library_size()) + 31) / 32);
    }

    bool accept(int32_t token_id) override {
        if (is_finished_ || is_broken_ || token_id < 0 || token_id >= vocabulary_->size) {
            return false;
        }
        const bool is_end = vocabulary_->is_end(token_id);
        if (!is_end && tokens_[static_cast<size_t>(token_id)].empty()) {
            return false;  // the library would say so on stderr
        }
        bool is_accepted = false;
        guard([&] { is_accepted = matcher_.AcceptToken(is_end ? vocabulary_->size : token_id); });
        is_finished_ = is_accepted && is_end;
        return is_accepted;
    }

    void rollback(int32_t count) override {
        DI_CHECK(count >= 0 && count <= kTokenMaskRollbackMax, "a rollback of more tokens than are remembered");
        if (count > 0) {
            is_finished_ = false;
            guard([&] { matcher_.Rollback(count); });
        }
    }

    bool fill(std::span<uint32_t> words) override {
        DI_CHECK(words.size() == vocabulary_->words(), "a mask of another vocabulary");
        bool is_filled = false;
        if (!is_finished_ && !is_broken_) {
            guard([&] {
                int64_t shape = static_cast<int64_t>(words_.size());
                DLTensor tensor{.data = words_.data(),
                                .device = {.device_type = kDLCPU, .device_id = 0},
                                .ndim = 1,
                                .dtype = {.code = kDLInt, .bits = 32, .lanes = 1},
                                .shape = &shape,
                                .strides = nullptr,
                                .byte_offset = 0};
                (void)matcher_.FillNextTokenBitmask(&tensor);
                is_filled = true;
            });
        }
        if (!is_filled) {
            std::fill(words.begin(), words.end(), 0U);
            return true;
        }
        std::copy_n(words_.begin(), words.size(), words.begin());
        const auto size = static_cast<size_t>(vocabulary_->size);
        const bool may_end = ((static_cast<uint32_t>(words_[size / 32]) >> (size % 32)) & 1U) != 0;
        if (size % 32 != 0) {
            words.back() &= (1U << (size % 32)) - 1U;
        }
        for (const int32_t id : vocabulary_->end_token_ids) {
            const uint32_t bit = 1U << (static_cast<uint32_t>(id) % 32);
            uint32_t& word = words[static_cast<size_t>(id) / 32];
            word = may_end ? word | bit : word & ~bit;
        }
        return true;
    }

    [[nodiscard]] bool is_finished() const override { return is_finished_; }

    [[nodiscard]] std::unique_ptr<TokenMask> clone() const override {
        auto copy = std::make_unique<GrammarMask>(vocabulary_, tokens_, matcher_.Fork());
        copy->is_finished_ = is_finished_;
        copy->is_broken_ = is_broken_;
        return copy;
    }

  private:
    // After an exception nothing is allowed any more: the request meets a dead end, the others go on.
    template <typename Call>
    void guard(const Call& call) {
        try {
            call();
        } catch (const std::exception& exception) {
            is_broken_ = true;
            log_warning("structured output: {}", exception.what());
        }
    }

    std::shared_ptr<const Vocabulary> vocabulary_;  // also of the compiler, which the mask may outlive
    const std::vector<std::string>& tokens_;        // in vocabulary_
    xgrammar::GrammarMatcher matcher_;
    std::vector<int32_t> words_;
    bool is_finished_ = false;
    bool is_broken_ = false;
};

// One grammar, compiled once for whoever asked for it. Fields behind `is_done` are written before it is set.
struct Compilation {
    explicit Compilation(std::string text) : source(std::move(text)) {}

    std::string source;
    bool has_marker = false;  // of tool calls: compiled for the vocabulary that has it
    std::shared_ptr<const Vocabulary> vocabulary;
    std::optional<xgrammar::CompiledGrammar> compiled;
    std::optional<Error> error;
    int64_t bytes = 0;
    // Set with release when the fields above are final, read with acquire before they are looked at.
    std::atomic<bool> is_done = false;
    // Sources that still want it. Relaxed: only a hint that the work can be left out, checked by the worker.
    std::atomic<int64_t> interest = 0;

    [[nodiscard]] std::unique_ptr<TokenMask> mask() const {
        const xgrammar::TokenizerInfo& info = has_marker ? *vocabulary->call_info : *vocabulary->info;
        return std::make_unique<GrammarMask>(vocabulary, info.GetDecodedVocab(), xgrammar::GrammarMatcher(*compiled));
    }
};

// Where a constraint begins that does not begin at once, and how.
struct Beginning {
    std::vector<int32_t> trigger{};
    std::optional<int32_t> bound{};
    // Of calls in free text: the first tokens of the grammar that stand before what follows the marker.
    bool is_gate = false;
    bool must_call = false;
    std::vector<int32_t> marker_prefix{};
};

class Source : public TokenMaskSource {
  public:
    Source(std::shared_ptr<Compilation> compilation, Beginning beginning, int64_t timeout_ms)
        : compilation_(std::move(compilation)),
          beginning_(std::move(beginning)),
          timeout_ms_(timeout_ms),
          deadline_(Clock::now() + std::chrono::milliseconds(timeout_ms)) {
        compilation_->interest.fetch_add(1, std::memory_order_relaxed);
    }
    ~Source() override { cancel(); }
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    [[nodiscard]] bool is_ready() const override {
        return compilation_->is_done.load(std::memory_order_acquire) || Clock::now() >= deadline_;
    }

    [[nodiscard]] Result<std::unique_ptr<TokenMask>> create() const override {
        if (!compilation_->is_done.load(std::memory_order_acquire)) {
            return fail(ErrorCode::kInvalidArgument, "structured output: time-out: the grammar was not compiled within {} ms",
                        timeout_ms_);
        }
        if (compilation_->error) {
            return tl::unexpected<Error>(*compilation_->error);
        }
        try {
            std::unique_ptr<TokenMask> mask = compilation_->mask();
            if (beginning_.is_gate) {
                return gate(std::move(mask));
            }
            if (!beginning_.trigger.empty()) {
                mask = std::make_unique<TriggerMask>(std::move(mask), beginning_.trigger, beginning_.bound,
                                                     compilation_->vocabulary->end_token_ids);
            }
            return mask;
        } catch (const std::exception& exception) {
            return fail(ErrorCode::kInternal, "structured output: {}", exception.what());
        }
    }

    void cancel() override {
        if (!is_cancelled_.exchange(true, std::memory_order_relaxed)) {
            compilation_->interest.fetch_sub(1, std::memory_order_relaxed);
        }
    }

  private:
    [[nodiscard]] Result<std::unique_ptr<TokenMask>> gate(std::unique_ptr<TokenMask> mask) const {
        const Vocabulary& vocabulary = *compilation_->vocabulary;
        auto gate = std::make_shared<ToolCallGate>();
        gate->marker_id = *vocabulary.marker_id;
        gate->end_token_ids = vocabulary.end_token_ids;
        gate->opens_tag = vocabulary.opens_tag;
        gate->must_call = beginning_.must_call;
        std::unique_ptr<TokenMask> behind_reasoning;
        if (!beginning_.trigger.empty()) {
            gate->reasoning_end_id = beginning_.trigger.front();
            behind_reasoning = mask->clone();
        }
        for (const int32_t id : beginning_.marker_prefix) {
            if (!mask->accept(id)) {
                return fail(ErrorCode::kInternal, "structured output: the grammar of calls refuses token {} of their opening",
                            id);
            }
        }
        return std::make_unique<ToolCallMask>(std::move(gate), std::move(mask), std::move(behind_reasoning));
    }

    std::shared_ptr<Compilation> compilation_;  // with the cache and other requests for the same grammar
    Beginning beginning_;
    int64_t timeout_ms_;
    Clock::time_point deadline_;
    // Relaxed: only makes the second cancel() do nothing.
    std::atomic<bool> is_cancelled_ = false;
};

}  // namespace

class GrammarCompiler::Impl {
  public:
    Impl(const Tokenizer& tokenizer, int64_t vocab_size, std::vector<int32_t> end_token_ids, GrammarCompilerOptions options)
        : tokenizer_(tokenizer), options_(options), vocabulary_(std::make_shared<Vocabulary>()) {
        vocabulary_->size = static_cast<int32_t>(vocab_size);
        vocabulary_->end_token_ids = std::move(end_token_ids);
        std::erase_if(vocabulary_->end_token_ids, [vocab_size](int32_t id) { return id < 0 || id >= vocab_size; });
        const int available = static_cast<int>(std::thread::hardware_concurrency());
        thread_count_ = options.thread_count > 0 ? options.thread_count : std::clamp(available, 1, kThreadsMax);
        const std::optional<int32_t> marker = tokenizer.find(kToolMarkerToken);
        if (marker && tokenizer.is_added(*marker) && *marker < vocabulary_->size) {
            vocabulary_->marker_id = marker;
        }
    }

    ~Impl() {
        {
            const std::lock_guard lock(mutex_);
            is_stopping_ = true;
        }
        work_.notify_all();
        for (std::thread& thread : threads_) {
            thread.join();
        }
    }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    Result<std::shared_ptr<TokenMaskSource>> submit(const GrammarSpec& spec) {
        DI_TRY_STATUS(check_tokens(spec));
        DI_TRY(Beginning beginning, beginning_of(spec));
        DI_TRY(std::string source, grammar_source(spec, kEnd));
        const bool has_marker = spec.kind == GrammarSpec::Kind::kToolCalls;
        if (has_marker) {
            source += '\n';  // no other kind ends so: the same text for another vocabulary is another grammar
        }
        const std::lock_guard lock(mutex_);
        std::shared_ptr<Compilation> compilation = find(source);
        if (compilation == nullptr) {
            if (waiting_.size() >= kGrammarQueueMax) {
                return fail(ErrorCode::kUnavailable, "{} grammars wait to be compiled, expected less: try again later",
                            waiting_.size());
            }
            compilation = std::make_shared<Compilation>(std::move(source));
            compilation->vocabulary = vocabulary_;
            compilation->has_marker = has_marker;
            remember(compilation);
            waiting_.push_back(compilation);
            start_thread();
        } else {
            ++counts_.reused;
        }
        auto result = std::make_shared<Source>(compilation, std::move(beginning), options_.timeout_ms);
        work_.notify_one();
        return result;
    }

    GrammarCompilerCounts counts() {
        const std::lock_guard lock(mutex_);
        return counts_;
    }

  private:
    using Recent = std::list<std::shared_ptr<Compilation>>;  // the last used one in front

    Status check_tokens(const GrammarSpec& spec) const {
        for (const int32_t id : spec.trigger_token_ids) {
            if (id < 0 || id >= vocabulary_->size) {
                return fail(ErrorCode::kInvalidArgument, "trigger_token_ids: {}, expected ids from 0 to {}", id,
                            vocabulary_->size - 1);
            }
        }
        if (!spec.bound_token_id) {
            return {};
        }
        if (spec.trigger_token_ids.empty()) {
            return fail(ErrorCode::kInvalidArgument, "bound_token_id: {} without trigger_token_ids, expected both",
                        *spec.bound_token_id);
        }
        if (*spec.bound_token_id < 0 || *spec.bound_token_id >= vocabulary_->size) {
            return fail(ErrorCode::kInvalidArgument, "bound_token_id: {}, expected an id from 0 to {}", *spec.bound_token_id,
                        vocabulary_->size - 1);
        }
        return {};
    }

    Result<Beginning> beginning_of(const GrammarSpec& spec) const {
        Beginning beginning{.trigger = spec.trigger_token_ids, .bound = spec.bound_token_id};
        if (spec.kind != GrammarSpec::Kind::kToolCalls) {
            return beginning;
        }
        if (!vocabulary_->marker_id) {
            return fail(ErrorCode::kUnsupported, "tools: the tokenizer has no {}, expected one", kToolMarkerToken);
        }
        if (spec.tools.empty() || spec.trigger_token_ids.size() > 1 || spec.bound_token_id || spec.other_answer.size() > 1) {
            return fail(ErrorCode::kInvalidArgument,
                        "tools: {} tools, {} trigger tokens, {} other answers, expected at least one tool, at most one of the "
                        "others and no bound token",
                        spec.tools.size(), spec.trigger_token_ids.size(), spec.other_answer.size());
        }
        const bool is_behind_marker = spec.call_start == GrammarSpec::CallStart::kMarker;
        beginning.is_gate = is_behind_marker || !spec.trigger_token_ids.empty();
        beginning.must_call = !is_behind_marker && spec.other_answer.empty();
        if (beginning.is_gate && !is_behind_marker) {
            DI_TRY(beginning.marker_prefix, tokenizer_.encode_plain("\n\n<"));
            beginning.marker_prefix.push_back(*vocabulary_->marker_id);
        }
        return beginning;
    }

    // --- under mutex_ ---

    std::shared_ptr<Compilation> find(const std::string& source) {
        const auto found = known_.find(source);
        if (found == known_.end()) {
            return nullptr;
        }
        recent_.splice(recent_.begin(), recent_, found->second);
        return *found->second;
    }

    void remember(const std::shared_ptr<Compilation>& compilation) {
        recent_.push_front(compilation);
        known_.emplace(compilation->source, recent_.begin());
    }

    void forget(Recent::iterator place) {
        counts_.cache_bytes -= (*place)->bytes;
        known_.erase(std::string_view((*place)->source));
        recent_.erase(place);
    }

    // Whoever holds an evicted grammar keeps it.
    void evict() {
        for (auto place = recent_.end(); counts_.cache_bytes > options_.cache_bytes && place != recent_.begin();) {
            --place;
            if ((*place)->is_done.load(std::memory_order_relaxed)) {
                const auto old = place++;
                forget(old);
            }
        }
    }

    void start_thread() {
        if (static_cast<int>(threads_.size()) < thread_count_) {
            threads_.emplace_back([this] { work(); });
        }
    }

    // --- on the threads ---

    void work() {
        std::unique_lock lock(mutex_);
        for (;;) {
            work_.wait(lock, [this] { return is_stopping_ || !waiting_.empty(); });
            if (is_stopping_) {
                return;
            }
            const std::shared_ptr<Compilation> compilation = waiting_.front();
            waiting_.pop_front();
            if (compilation->interest.load(std::memory_order_relaxed) == 0) {
                ++counts_.dropped;
                forget(known_.find(compilation->source)->second);
                continue;
            }
            lock.unlock();
            compile(*compilation);
            lock.lock();
            ++counts_.compiled;
            counts_.cache_bytes += compilation->bytes;
            compilation->is_done.store(true, std::memory_order_release);
            evict();
        }
    }

    void compile(Compilation& compilation) {
        try {
            if (compilation.has_marker) {
                std::call_once(call_vocabulary_once_, [this] {
                    vocabulary_->call_info.emplace(library_vocabulary(tokenizer_, *vocabulary_, true));
                    vocabulary_->opens_tag = tag_openers(tokenizer_, *vocabulary_);
                });
            } else {
                std::call_once(vocabulary_once_,
                               [this] { vocabulary_->info.emplace(library_vocabulary(tokenizer_, *vocabulary_, false)); });
            }
            xgrammar::GrammarCompiler compiler(compilation.has_marker ? *vocabulary_->call_info : *vocabulary_->info, 1, false);
            compilation.compiled = compiler.CompileGrammar(compilation.source);
            compilation.bytes = static_cast<int64_t>(compilation.compiled->MemorySizeBytes() + compilation.source.size());
            check_speed(compilation);
        } catch (const std::exception& exception) {
            compilation.compiled.reset();
            compilation.bytes = static_cast<int64_t>(compilation.source.size());
            compilation.error =
                Error{ErrorCode::kInvalidArgument, fmt::format("structured output: compile error: {}", exception.what())};
        }
    }

    // Follows the grammar for some tokens. Some grammars compile in a moment and then look at every token of the
    // vocabulary in every step.
    void check_speed(Compilation& compilation) const {
        constexpr int kSteps = 6;
        const std::unique_ptr<TokenMask> mask = compilation.mask();
        std::vector<uint32_t> words(vocabulary_->words());
        int64_t total_us = 0;
        int steps = 0;
        for (uint32_t pick = 1; steps < kSteps && !mask->is_finished(); ++steps) {
            const auto begin = Clock::now();
            (void)mask->fill(words);
            total_us += std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
            std::vector<int32_t> allowed;
            for (int32_t id = 0; id < vocabulary_->size; ++id) {
                if ((words[static_cast<size_t>(id) / 32] >> (static_cast<uint32_t>(id) % 32)) & 1U) {
                    allowed.push_back(id);
                }
            }
            pick = pick * 1664525U + 1013904223U;
            if (allowed.empty() || !mask->accept(allowed[pick % allowed.size()])) {
                break;
            }
        }
        if (steps > 0 && total_us / steps > kMaskMicrosecondsMax) {
            compilation.compiled.reset();
            compilation.error =
                Error{ErrorCode::kInvalidArgument,
                      fmt::format("structured output: compile error: the grammar needs {} ms a token, expected at most {}: "
                                  "bound repetitions of groups more tightly, or repeat single classes of characters",
                                  total_us / steps / 1000, kMaskMicrosecondsMax / 1000)};
        }
    }

    const Tokenizer& tokenizer_;
    const GrammarCompilerOptions options_;
    std::shared_ptr<Vocabulary> vocabulary_;  // with every mask; written once under the two flags
    std::once_flag vocabulary_once_;
    std::once_flag call_vocabulary_once_;
    int thread_count_ = 1;

    std::mutex mutex_;  // guards everything below
    std::condition_variable work_;
    bool is_stopping_ = false;
    std::deque<std::shared_ptr<Compilation>> waiting_;
    Recent recent_;
    std::unordered_map<std::string_view, Recent::iterator> known_;  // keys are the sources in recent_
    GrammarCompilerCounts counts_;
    std::vector<std::thread> threads_;
};

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer, int64_t vocab_size, std::vector<int32_t> end_token_ids,
                                 GrammarCompilerOptions options)
    : impl_(std::make_unique<Impl>(tokenizer, vocab_size, std::move(end_token_ids), options)) {}

GrammarCompiler::~GrammarCompiler() = default;

Result<std::shared_ptr<TokenMaskSource>> GrammarCompiler::submit(const GrammarSpec& spec) { return impl_->submit(spec); }

GrammarCompilerCounts GrammarCompiler::counts() const { return impl_->counts(); }

}  // namespace di
