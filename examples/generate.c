/* Two prompts in one batch through the C ABI, token by token.
 *
 *     cc examples/generate.c $(pkg-config --cflags --libs deepinfer) -o generate && ./generate models/v41-mini */

#include <di/c_api.h>
#include <stdio.h>
#include <string.h>

static int failed(const char* what) {
    fprintf(stderr, "%s: %s\n", what, di_last_error());
    return 1;
}

static di_code add(di_engine* engine, const char* prompt, uint64_t* id) {
    di_request request;
    di_request_init(&request, sizeof request);
    request.text.data = prompt;
    request.text.size = strlen(prompt);
    request.temperature = 0.0;
    request.max_tokens = 12;
    return di_engine_add(engine, &request, id);
}

/* Prints what a step did; -1 when a request failed. */
static int print(const di_outputs* outputs) {
    int result = 0;
    for (size_t i = 0; i < di_outputs_count(outputs); ++i) {
        const di_output* output = di_outputs_get(outputs, i);
        for (size_t t = 0; t < output->token_count; ++t) {
            const di_text text = output->tokens[t].text;
            printf("%d: %.*s\n", (int)output->request_id, (int)text.size, text.data);
        }
        if (output->finish != DI_FINISH_NONE) {
            printf("%d: ends with %s after %d tokens\n", (int)output->request_id, di_finish_name(output->finish),
                   (int)output->completion_tokens);
        }
        if (output->error != DI_OK) {
            fprintf(stderr, "%.*s\n", (int)output->error_text.size, output->error_text.data);
            result = -1;
        }
    }
    return result;
}

int main(int argc, char** argv) {
    di_options* options = di_options_new();
    di_engine* engine = NULL;
    uint64_t first = 0;
    uint64_t second = 0;
    int result = 0;
    if (argc > 1 && di_options_set(options, "model", argv[1]) != DI_OK) {
        return failed("model");
    }
    if (di_options_set(options, "max-model-len", "256") != DI_OK || di_engine_open(options, &engine) != DI_OK) {
        return failed("open");
    }
    di_options_free(options);
    if (add(engine, "Once upon a time", &first) != DI_OK || add(engine, "The cat", &second) != DI_OK) {
        return failed("add");
    }
    while (result == 0 && di_engine_has_unfinished(engine)) {
        di_outputs* outputs = NULL;
        if (di_engine_step(engine, &outputs) != DI_OK) {
            return failed("step");
        }
        result = print(outputs);
        di_outputs_free(outputs);
    }
    di_engine_close(engine);
    return result == 0 ? 0 : 1;
}
