#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "apps/commands.h"
#include "apps/engine_setup.h"
#include "apps/progress.h"
#include "apps/prompt_lines.h"
#include "apps/result_json.h"
#include "base/file_io.h"
#include "text/limits.h"

namespace di {
namespace {

// What is to be run: a request, or why a line is none. Both keep their place in the output.
using Item = std::variant<PromptRequest, Error>;

// Prints results in input order as soon as all before them are there.
class OrderedOutput {
  public:
    OrderedOutput(const Options& options, std::vector<std::optional<PromptResult>> results)
        : is_json_(options.json), results_(std::move(results)), bar_(static_cast<int64_t>(results_.size()), "prompts") {
        print_ready();
    }

    void count_token() { bar_.count_token(); }
    void add(size_t index, PromptResult result) {
        results_[index] = std::move(result);
        bar_.advance();
        print_ready();
    }
    [[nodiscard]] bool has_failed() const { return has_failed_; }

  private:
    void print_ready() {
        for (; next_ < results_.size() && results_[next_]; ++next_) {
            print(next_, *results_[next_]);
            results_[next_].emplace();  // its text is not needed any more
        }
    }

    void print(size_t index, const PromptResult& result) {
        bar_.hide();
        if (is_json_) {
            fmt::print("{}\n", result_json(index, result));
        } else if (!result.error) {
            fmt::print("[{}] {}\n", index, result.text);
        }
        if (result.error) {
            has_failed_ = true;
            print_error(fmt::format("prompt {}: {}", index, result.error->text));
        }
        std::fflush(stdout);
    }

    bool is_json_;
    std::vector<std::optional<PromptResult>> results_;
    ProgressBar bar_;
    size_t next_ = 0;
    bool has_failed_ = false;
};

Result<std::vector<std::string>> read_images(const std::vector<std::string>& paths) {
    std::vector<std::string> images;
    for (const std::string& path : paths) {
        DI_TRY(std::string image, read_file(path, static_cast<int64_t>(kImageBytesMax)));
        images.push_back(std::move(image));
    }
    return images;
}

// A user's message with the images in front of its text, as chat clients send it.
Conversation chat_prompt(std::string text, size_t image_count) {
    Conversation conversation = user_conversation(std::move(text));
    std::vector<ContentPart>& parts = conversation.messages.front().parts;
    ContentPart image;
    image.kind = ContentPart::Kind::kImage;
    parts.insert(parts.begin(), image_count, image);
    return conversation;
}

void make_chat(const Options& options, PromptRequest& request) {
    if (auto* text = std::get_if<std::string>(&request.prompt); options.chat && text != nullptr && !text->empty()) {
        request.prompt = chat_prompt(std::move(*text), request.images.size());
    }
}

std::vector<Item> line_items(const Options& options, const std::vector<std::string>& lines, const PromptRequest& defaults) {
    std::vector<Item> items;
    for (const std::string& line : lines) {
        Result<PromptRequest> request = parse_prompt_line(line, defaults);
        if (!request) {
            items.emplace_back(std::move(request.error()));
            continue;
        }
        make_chat(options, *request);
        items.emplace_back(std::move(*request));
    }
    return items;
}

int run_lines(const Options& options, Session& session, const std::vector<std::string>& lines,
              const std::optional<GrammarSpec>& grammar) {
    PromptRequest defaults = default_request(options, session);
    defaults.grammar = grammar;
    std::vector<Item> items = line_items(options, lines, defaults);
    std::vector<std::optional<PromptResult>> known(items.size());
    std::vector<PromptRequest> requests;
    std::vector<size_t> places;  // of each request among the lines
    for (size_t i = 0; i < items.size(); ++i) {
        if (auto* error = std::get_if<Error>(&items[i])) {
            known[i].emplace();
            known[i]->finish = FinishReason::kError;
            known[i]->error = std::move(*error);
            continue;
        }
        requests.push_back(std::move(std::get<PromptRequest>(items[i])));
        places.push_back(i);
    }
    OrderedOutput output(options, std::move(known));
    const std::vector<PromptResult> results = session.generate(std::move(requests), [&](const PromptEvent& event) {
        if (event.end != nullptr) {
            output.add(places[event.index], *event.end);
        } else {
            output.count_token();
        }
        return true;
    });
    return output.has_failed() ? kExitRequestFailed : kExitOk;
}

int run_one(const Options& options, Session& session, const std::optional<GrammarSpec>& grammar) {
    PromptRequest request = default_request(options, session);
    request.grammar = grammar;
    Result<std::vector<std::string>> images = read_images(options.image);
    if (!images) {
        print_error(images.error());
        return kExitRequestFailed;
    }
    request.images = std::move(*images);
    request.prompt = *options.prompt;
    make_chat(options, request);
    std::vector<PromptRequest> requests;
    requests.push_back(std::move(request));
    const std::vector<PromptResult> results = session.generate(std::move(requests), [&](const PromptEvent& event) {
        if (!options.json) {
            std::fwrite(event.text.data(), 1, event.text.size(), stdout);
            std::fflush(stdout);
        }
        return true;
    });
    const PromptResult& result = results.front();
    if (options.json) {
        fmt::print("{}\n", result_json(0, result));
    } else if (!result.error || !result.text.empty()) {
        std::fputc('\n', stdout);
    }
    if (result.error) {
        print_error(*result.error);
        return kExitRequestFailed;
    }
    return kExitOk;
}

Status check_usage(const Options& options) {
    if (options.prompt.has_value() == options.prompts.has_value()) {
        return fail(ErrorCode::kInvalidArgument, "{}, expected either PROMPT or --prompts F",
                    options.prompt ? "both PROMPT and --prompts" : "no prompt");
    }
    if (options.prompts && !options.image.empty()) {
        return fail(ErrorCode::kInvalidArgument, "--image together with --prompts, expected images in the lines");
    }
    return {};
}

}  // namespace

int run_command(const Options& options) {
    if (const Status status = check_usage(options); !status) {
        print_error(status.error());
        return kExitUsage;
    }
    std::vector<std::string> lines;
    if (options.prompts) {
        Result<std::vector<std::string>> read = read_prompt_lines(*options.prompts);
        if (!read) {
            print_error(read.error());
            return kExitUsage;
        }
        if (read->empty()) {
            print_error(fmt::format("{} has no line, expected one JSON object a line", *options.prompts));
            return kExitUsage;
        }
        lines = std::move(*read);
    }
    const Result<std::optional<GrammarSpec>> grammar = answer_grammar(options);
    if (!grammar) {
        print_error(grammar.error());
        return kExitUsage;
    }
    const Result<std::unique_ptr<Session>> session = open_session(options);
    if (!session) {
        print_error(session.error());
        return exit_code_of(session.error());
    }
    return options.prompts ? run_lines(options, **session, lines, *grammar) : run_one(options, **session, *grammar);
}

}  // namespace di
