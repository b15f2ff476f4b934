#include <cstdio>
#include <ctime>
#include <string>

#include "apps/commands.h"
#include "apps/engine_setup.h"
#include "base/file_io.h"
#include "session/model_files.h"
#include "session/recipe.h"

namespace di {
namespace {

// A request may hold hundreds of images.
constexpr int64_t kInputBytesMax = int64_t{1} << 30;

Result<std::string> run_recipe(const Options& options, const Tokenizer& tokenizer) {
    SystemRandom random;
    const RecipeContext context{.tokenizer = &tokenizer, .random = &random, .now_s = std::time(nullptr)};
    DI_TRY(const Dialect dialect, parse_recipe_dialect(options.dialect));
    DI_TRY(const std::string input, read_file(options.input == "-" ? "/dev/stdin" : options.input, kInputBytesMax));
    if (options.subject == "encode") {
        return recipe_encode(input, dialect, context);
    }
    return recipe_decode(input, dialect, options.stream, context);
}

Result<Tokenizer> recipe_tokenizer(const Options& options) {
    if (options.tokenizer) {
        return open_tokenizer(*options.tokenizer);
    }
    DI_TRY(const std::string model, model_directory(options));
    return open_tokenizer(model);
}

}  // namespace

int recipe_command(const Options& options) {
    if (options.subject != "encode" && options.subject != "decode") {
        print_error(fmt::format("recipe \"{}\", expected encode or decode", options.subject));
        return kExitUsage;
    }
    if (options.stream && options.subject == "encode") {
        print_error("--stream, expected only with decode");
        return kExitUsage;
    }
    const Result<Tokenizer> tokenizer = recipe_tokenizer(options);
    if (!tokenizer) {
        print_error(tokenizer.error());
        return exit_code_of(tokenizer.error());
    }
    const Result<std::string> output = run_recipe(options, *tokenizer);
    if (!output) {
        print_error(output.error());
        return kExitRequestFailed;
    }
    std::fwrite(output->data(), 1, output->size(), stdout);
    if (!options.stream) {
        std::fputc('\n', stdout);
    }
    return kExitOk;
}

}  // namespace di
