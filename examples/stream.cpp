// Streams one answer through the C++ API and ends it after a sentence.
//
//     c++ -std=c++20 examples/stream.cpp $(pkg-config --cflags --libs deepinfer) -o stream && ./stream models/v41-mini "Once upon a time"

#include <di/engine.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
    di::EngineOptions options = {{"max-model-len", "512"}};
    if (argc > 1) {
        options.emplace_back("model", argv[1]);
    }
    auto engine = di::Engine::open(options);
    if (!engine) {
        std::fprintf(stderr, "open: %s\n", engine.error().text.c_str());
        return 1;
    }
    di::Request request = engine->advised_request();
    request.text = argc > 2 ? argv[2] : "Once upon a time";
    request.max_tokens = 100;
    request.seed = 1;
    const auto id = engine->add(request);
    if (!id) {
        std::fprintf(stderr, "add: %s\n", id.error().text.c_str());
        return 1;
    }
    while (engine->has_unfinished()) {
        const auto outputs = engine->step();
        if (!outputs) {
            std::fprintf(stderr, "step: %s\n", outputs.error().text.c_str());
            return 1;
        }
        for (const di::Output& output : *outputs) {
            const std::string text = output.text();
            std::fputs(text.c_str(), stdout);
            if (text.find('.') != std::string::npos) {
                engine->abort(*id);
            }
            if (output.is_finished()) {
                std::printf("\n[%s, %d tokens]\n", di_finish_name(output.finish), static_cast<int>(output.completion_tokens));
            }
        }
    }
    return 0;
}
