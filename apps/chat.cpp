#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "apps/commands.h"
#include "apps/engine_setup.h"

namespace di {
namespace {

// Set by Ctrl-C, which ends the answer and not the program.
volatile std::sig_atomic_t interrupted = 0;
void on_interrupt(int /*signal*/) { interrupted = 1; }

constexpr const char* kThinkEnd = "</think>";
// A pasted page fits; a binary file sent by mistake does not fill the memory.
constexpr size_t kLineBytesMax = size_t{1} << 20;

// Nothing at the end of input, or after Ctrl-C at the prompt.
std::optional<std::string> read_line(bool is_terminal) {
    if (is_terminal) {
        std::fputs("> ", stdout);
        std::fflush(stdout);
    }
    std::string line;
    int c = 0;
    while ((c = std::fgetc(stdin)) != EOF && c != '\n') {
        if (line.size() < kLineBytesMax) {
            line += static_cast<char>(c);
        }
    }
    if (c == EOF && line.empty()) {
        return std::nullopt;
    }
    return line;
}

class Chat {
  public:
    Chat(const Options& options, Session& session) : options_(options), session_(session) {}

    // False when the user wants to leave.
    bool take_command(const std::string& line) {
        if (line == "/exit" || line == "/quit") {
            return false;
        }
        if (line == "/reset") {
            conversation_.messages.clear();
            fmt::print("a new conversation\n");
        } else if (line == "/think on" || line == "/think off") {
            conversation_.is_thinking = line.ends_with("on");
            fmt::print("thinking {}\n", conversation_.is_thinking ? "on" : "off");
        } else {
            fmt::print("/exit, /reset, /think on, /think off; anything else is sent to the model\n");
        }
        return true;
    }

    // False if the model could not answer; the message is then taken back.
    bool answer(std::string text) {
        Message message = std::move(user_conversation(std::move(text)).messages.front());
        conversation_.messages.push_back(std::move(message));
        PromptRequest request = default_request(options_, session_);
        request.prompt = conversation_;
        std::vector<PromptRequest> requests;
        requests.push_back(std::move(request));
        interrupted = 0;
        const std::vector<PromptResult> results = session_.generate(std::move(requests), [](const PromptEvent& event) {
            std::fwrite(event.text.data(), 1, event.text.size(), stdout);
            std::fflush(stdout);
            return interrupted == 0;
        });
        std::fputc('\n', stdout);
        const PromptResult& result = results.front();
        if (result.error) {
            conversation_.messages.pop_back();
            print_error(*result.error);
            return false;
        }
        if (result.finish == FinishReason::kLength) {
            fmt::print(stderr, "(cut at {} tokens)\n", result.usage.completion_tokens);
        }
        remember(result.text);
        return true;
    }

  private:
    // The next turn shows the model its answer; the encoding leaves earlier reasoning out.
    void remember(const std::string& text) {
        Message message;
        message.role = MessageRole::kAssistant;
        const size_t end = conversation_.is_thinking ? text.find(kThinkEnd) : std::string::npos;
        if (end != std::string::npos) {
            message.reasoning = text.substr(0, end);
            message.parts.push_back(text_part(text.substr(end + std::string_view(kThinkEnd).size())));
        } else if (conversation_.is_thinking) {
            message.reasoning = text;  // cut before it had finished thinking
            message.parts.push_back(text_part(""));
        } else {
            message.parts.push_back(text_part(text));
        }
        conversation_.messages.push_back(std::move(message));
    }

    const Options& options_;
    Session& session_;
    Conversation conversation_;
};

void catch_interrupt() {
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    sigaction(SIGINT, &action, nullptr);  // without SA_RESTART: Ctrl-C at the prompt ends the reading
}

}  // namespace

int chat_command(const Options& options) {
    const Result<std::unique_ptr<Session>> session = open_session(options);
    if (!session) {
        print_error(session.error());
        return exit_code_of(session.error());
    }
    const bool is_terminal = isatty(STDIN_FILENO) == 1;
    if (is_terminal) {
        fmt::print("/exit leaves, /reset forgets, /think on|off; Ctrl-C ends an answer\n");
    }
    catch_interrupt();
    Chat chat(options, **session);
    bool has_failed = false;
    while (const std::optional<std::string> line = read_line(is_terminal)) {
        if (line->empty()) {
            continue;
        }
        if (line->front() == '/') {
            if (!chat.take_command(*line)) {
                break;
            }
            continue;
        }
        has_failed = !chat.answer(*line) || has_failed;
    }
    return has_failed ? kExitRequestFailed : kExitOk;
}

}  // namespace di
