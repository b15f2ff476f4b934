#include <string>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/engine_setup.h"
#include "apps/machine.h"
#include "backend/backend.h"
#include "base/memory.h"
#include "weights/model_config.h"

namespace di {
namespace {

using Json = nlohmann::ordered_json;

struct Diagnosis {
    Machine machine;
    std::string backend;  // "cpu/avx2"
    std::string backend_reason;
    int threads = 0;
    std::string model;       // directory; empty: none
    std::string model_note;  // its architecture, or what is wrong with it
    bool is_model_good = false;
};

std::string backend_reason(const Options& options) {
    if (options.backend != "auto") {
        return fmt::format("asked for as \"{}\"", options.backend);
    }
    return "the fastest backend of this build; it has none for CUDA devices";
}

void look_at_model(const Options& options, Diagnosis& diagnosis) {
    const Result<std::string> directory = model_directory(options);
    if (!directory) {
        diagnosis.model_note = directory.error().text;
        return;
    }
    diagnosis.model = *directory;
    const Result<ModelConfig> config = load_model_config(*directory);
    diagnosis.is_model_good = config.has_value();
    diagnosis.model_note =
        config ? fmt::format("{}, {} layers, vocabulary {}", config->architecture, config->layer_count, config->vocab_size)
               : config.error().text;
}

Result<Diagnosis> diagnose(const Options& options) {
    Diagnosis diagnosis;
    DI_TRY(const EngineOptions engine, engine_flags(options));
    diagnosis.machine = look_at_machine();
    diagnosis.threads = engine.threads > 0 ? engine.threads : diagnosis.machine.cores_usable;
    DI_TRY(const std::unique_ptr<Backend> backend,
           create_backend(engine.backend, {.threads = diagnosis.threads, .activations = engine.activations}));
    diagnosis.backend = backend->name();
    diagnosis.backend_reason = backend_reason(options);
    look_at_model(options, diagnosis);
    return diagnosis;
}

void print_json(const Diagnosis& diagnosis) {
    const Machine& machine = diagnosis.machine;
    const Json object = {
        {"version", DI_VERSION},
        {"cpu",
         {{"model", machine.cpu_model},
          {"features", machine.cpu_features},
          {"cores_online", machine.cores_online},
          {"cores_usable", machine.cores_usable}}},
        {"memory", {{"total_bytes", machine.memory_total_bytes}, {"available_bytes", machine.memory_available_bytes}}},
        {"gpus", machine.gpus},
        {"backend", {{"name", diagnosis.backend}, {"threads", diagnosis.threads}, {"reason", diagnosis.backend_reason}}},
        {"model", {{"path", diagnosis.model}, {"ok", diagnosis.is_model_good}, {"note", diagnosis.model_note}}},
    };
    fmt::print("{}\n", object.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_lines(const Diagnosis& diagnosis) {
    const Machine& machine = diagnosis.machine;
    fmt::print("version   deepinfer {}\n", DI_VERSION);
    fmt::print("cpu       {}\n", machine.cpu_model);
    fmt::print("features  {}\n", fmt::join(machine.cpu_features, " "));
    fmt::print("cores     {} usable of {}\n", machine.cores_usable, machine.cores_online);
    fmt::print("memory    {} available of {}\n", format_bytes(machine.memory_available_bytes),
               format_bytes(machine.memory_total_bytes));
    fmt::print("gpus      {}\n", machine.gpus.empty() ? "none"
                                                      : fmt::format("{} ({}), not used: no cuda backend in this build",
                                                                    machine.gpus.size(), fmt::join(machine.gpus, " ")));
    fmt::print("backend   {} with {} threads: {}\n", diagnosis.backend, diagnosis.threads, diagnosis.backend_reason);
    fmt::print("model     {}{}{}\n", diagnosis.model, diagnosis.model.empty() ? "" : ": ", diagnosis.model_note);
}

}  // namespace

int doctor_command(const Options& options) {
    const Result<Diagnosis> diagnosis = diagnose(options);
    if (!diagnosis) {
        print_error(diagnosis.error());
        return exit_code_of(diagnosis.error());
    }
    if (options.json) {
        print_json(*diagnosis);
    } else {
        print_lines(*diagnosis);
    }
    return diagnosis->is_model_good ? kExitOk : kExitModel;
}

}  // namespace di
