#pragma once

/* The C ABI of deepinfer: libdeepinfer.so. docs/c_api.md has the story and an example.
 *
 * Handles are opaque. A function that can fail returns a di_code; di_last_error() then says why, for a person. Structs that the caller
 * fills begin with struct_size: init functions set it, so that a program built against an older header runs with a newer
 * library. Structs that the library fills only grow at their end. Texts are UTF-8 with a length; those that the library gives
 * also end with a zero. Any thread may call; calls on one engine wait for each other, except di_engine_abort(), which never waits. */

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define DI_API __attribute__((visibility("default")))
#else
#define DI_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define DI_ABI_VERSION 1

typedef int32_t di_code;
enum {
    DI_OK = 0,
    DI_INVALID_ARGUMENT = 1, /* the caller's value is wrong */
    DI_NOT_FOUND = 2,        /* a file, a tensor, a name that should be there is not */
    DI_INVALID_FILE = 3,     /* a file is there and is not what it should be */
    DI_OUT_OF_MEMORY = 4,    /* the plan does not fit the memory */
    DI_UNSUPPORTED = 5,      /* right in itself, but this build or machine cannot do it */
    DI_UNAVAILABLE = 6,      /* a limit of this moment, such as a full queue */
    DI_INTERNAL = 7,         /* a library failed in a way that has no better name */
    DI_CONTEXT_EXCEEDED = 8, /* a prompt, or a prompt and its answer, is longer than the model's context */
    DI_TIMED_OUT = 9         /* a time that the caller set has passed */
};

typedef int32_t di_finish;
enum { DI_FINISH_NONE = 0, DI_FINISH_STOP = 1, DI_FINISH_LENGTH = 2, DI_FINISH_ABORT = 3, DI_FINISH_ERROR = 4 };

typedef struct di_options di_options; /* how an engine is made */
typedef struct di_engine di_engine;   /* a model with its engine and tokenizer */
typedef struct di_outputs di_outputs; /* what one step did */

typedef struct di_text {
    const char* data; /* NULL: no text */
    size_t size;      /* in bytes */
} di_text;

typedef struct di_token_bias {
    int32_t token_id;
    float bias; /* -100 .. 100, added to the logit */
} di_token_bias;

typedef struct di_token_logprob {
    int32_t token_id;
    float logprob; /* natural logarithm */
} di_token_logprob;

/* --- the library ----------------------------------------------------------- */

DI_API const char* di_version(void);                 /* "0.1.0" */
DI_API int32_t di_abi_version(void);                 /* DI_ABI_VERSION of the library */
DI_API const char* di_last_error(void);              /* of this thread's last failed call; good until its next one */
DI_API const char* di_code_name(di_code code);       /* "ok", "invalid_argument", ... */
DI_API const char* di_finish_name(di_finish finish); /* "stop", "length", "abort", "error", "" */

/* --- options --------------------------------------------------------------- */

/* Names and values are those of the program's flags without the dashes: "model", "max-num-seqs", "kv-memory"; switches take
 * "true" or "false". What is not set follows the environment (docs/environment.md), else the machine. NULL: out of memory. */
DI_API di_options* di_options_new(void);
DI_API di_code di_options_set(di_options* options, const char* name, const char* value);
DI_API void di_options_free(di_options* options); /* NULL is fine */

/* --- engine ---------------------------------------------------------------- */

/* Options may be NULL, and may be freed afterwards. *engine is NULL when the call fails. */
DI_API di_code di_engine_open(const di_options* options, di_engine** engine);
/* Requests that have not ended do so without an output. No other call on this engine may be under way. NULL is fine. */
DI_API void di_engine_close(di_engine* engine);

typedef struct di_engine_info {
    size_t struct_size;
    int64_t vocab_size;
    int32_t max_model_len; /* prompt and answer together */
    int32_t max_num_seqs;
    int32_t max_num_batched_tokens;
    int32_t eos_token_id; /* -1: none */
    int64_t kv_block_count;
} di_engine_info;
/* struct_size says how much of it is filled. */
DI_API di_code di_engine_get_info(di_engine* engine, di_engine_info* info);

/* --- requests -------------------------------------------------------------- */

typedef struct di_request {
    size_t struct_size;

    /* The prompt: a text, or token ids when text.data is NULL. */
    di_text text;
    const int32_t* token_ids;
    size_t token_id_count;
    const di_text* images; /* encoded: PNG, JPEG, WebP */
    size_t image_count;

    /* Sampling. */
    double temperature; /* 0: the likeliest token */
    double top_p;       /* (0, 1] */
    int32_t top_k;      /* -1 or 0: off */
    int32_t n;          /* samples of the prompt, 1 .. 128 */
    double min_p;
    double repetition_penalty;
    double presence_penalty;
    double frequency_penalty;
    const di_token_bias* logit_bias;
    size_t logit_bias_count;
    const int32_t* allowed_token_ids; /* none: all */
    size_t allowed_token_id_count;
    const int32_t* banned_token_ids;
    size_t banned_token_id_count;
    uint64_t seed;
    int32_t has_seed;   /* 0: drawn anew each time */
    int32_t max_tokens; /* 0: an empty answer */
    int32_t min_tokens;
    int32_t ignore_eos;
    const int32_t* stop_token_ids;
    size_t stop_token_id_count;
    const int32_t* golden_token_ids; /* forced output, -1 leaves a place free */
    size_t golden_token_id_count;
    int32_t logprobs;               /* of the drawn tokens */
    int32_t top_logprobs;           /* so many likeliest tokens beside each, 0 .. 1000 */
    int32_t has_processed_logprobs; /* of what was drawn from, not of the model */
    int32_t prompt_logprobs;

    /* Around it. */
    const di_text* stop; /* texts that end the answer and are no part of it */
    size_t stop_count;
    di_text user;       /* fair share is among users */
    di_text cache_salt; /* prefixes are shared only among requests of one salt */
    double deadline_ms; /* from now; 0: none */
    int32_t priority;   /* higher goes first */

    /* Structured output: what the answer must look like. */
    int32_t bound_token_id;  /* when it comes before the trigger, the trigger follows at once; -1: none */
    const char* schema_type; /* "json", "json_object", "regex", "ebnf", "choice", "structural_tag"; NULL: free text */
    di_text schema;          /* a JSON schema, an expression, a grammar or a tag; none for json_object and choice */
    const di_text* choices;  /* of "choice" */
    size_t choice_count;
    const int32_t* trigger_token_ids; /* the answer is free until these have come in a row; none: bound at once */
    size_t trigger_token_id_count;
} di_request;

/* Sets every field to its default: an empty prompt, temperature 1, max_tokens 16. struct_size is sizeof(di_request) of the caller. */
DI_API void di_request_init(di_request* request, size_t struct_size);
/* As the model's authors advise: temperature, top_p, top_k of an initialised request. */
DI_API di_code di_engine_advise(di_engine* engine, di_request* request);

/* Everything that the request points to is copied. An error is the only answer that this request gets; else di_engine_step() tells
 * of *id until every sample has finished. */
DI_API di_code di_engine_add(di_engine* engine, const di_request* request, uint64_t* id);
/* Ends every sample of a request in the next step, in whatever state it is. Unknown ids are ignored. */
DI_API di_code di_engine_abort(di_engine* engine, uint64_t id);
/* Not 0: di_engine_step() has something to do or to tell. */
DI_API int32_t di_engine_has_unfinished(di_engine* engine);

/* --- steps ----------------------------------------------------------------- */

typedef struct di_token {
    int32_t token_id;
    float logprob; /* natural logarithm; NaN unless asked for */
    di_text text;  /* that became final with the token, often empty */
    const di_token_logprob* top_logprobs;
    size_t top_logprob_count;
} di_token;

/* What a step did for one sample of a request. The one whose finish is not DI_FINISH_NONE is the last of that sample. */
typedef struct di_output {
    uint64_t request_id;
    int32_t sample_index;
    di_finish finish;
    di_code error; /* with DI_FINISH_ERROR */
    int32_t accepted_drafts;
    di_text error_text;
    const di_token* tokens;
    size_t token_count;
    di_text rest;                 /* text that became final with the end */
    const float* prompt_logprobs; /* of prompt tokens 1 .., once, where asked for */
    size_t prompt_logprob_count;
    const int32_t* draft_token_ids; /* verified in this step */
    size_t draft_token_id_count;
    int64_t prompt_tokens;
    int64_t cached_tokens;
    int64_t completion_tokens;
    int64_t drafted_tokens;
    int64_t accepted_tokens;
    const char* cache_miss; /* why not more was cached: "none", "new", "evicted", ... */
    double queue_ms;
    double prefill_ms;
    double first_token_ms;
    double total_ms;
} di_output;

/* Runs one batch. *outputs, NULL when the call fails, may hold nothing; what it holds is good until it is freed, whatever runs
 * meanwhile. */
DI_API di_code di_engine_step(di_engine* engine, di_outputs** outputs);
/* Ends the step that runs ahead, if one does: afterwards nothing runs. */
DI_API di_code di_engine_flush(di_engine* engine, di_outputs** outputs);
DI_API size_t di_outputs_count(const di_outputs* outputs);
DI_API const di_output* di_outputs_get(const di_outputs* outputs, size_t index); /* NULL beyond the end */
DI_API void di_outputs_free(di_outputs* outputs);                                /* NULL is fine */

typedef struct di_stats {
    size_t struct_size;
    int64_t steps;
    int64_t prompt_tokens;
    int64_t cached_tokens;
    int64_t output_tokens;
    int64_t drafted_tokens;
    int64_t accepted_tokens;
    int64_t preemptions;
    int64_t finished;
    int64_t aborted;
    int64_t failed;
    int64_t running;
    int64_t waiting;
    int64_t blocks_used;
    int64_t blocks_cached;
    int64_t blocks_total;
} di_stats;
/* struct_size says how much of it is filled. */
DI_API di_code di_engine_get_stats(di_engine* engine, di_stats* stats);

/* --- tokenizer ------------------------------------------------------------- */

/* *count is how many there are, also when `capacity` is too small: then DI_INVALID_ARGUMENT and nothing is written. Special
 * tokens that the text spells become those tokens. */
DI_API di_code di_engine_encode(di_engine* engine, di_text text, int32_t* ids, size_t capacity, size_t* count);
/* The same for bytes; no zero is written behind them. */
DI_API di_code di_engine_decode(di_engine* engine, const int32_t* ids, size_t id_count, int32_t skip_special, char* text,
                                size_t capacity, size_t* size);

#ifdef __cplusplus
}
#endif
