"""The program `deepinfer`, end to end. DEEPINFER_PROGRAM names it; default: build/deepinfer."""

import json
import os
import pathlib
import re
import struct
import subprocess

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = os.environ.get("DEEPINFER_PROGRAM", str(REPOSITORY / "build" / "deepinfer"))
MINI = REPOSITORY / "models" / "v41-mini"
TINY = REPOSITORY / "tests" / "data" / "v41-tiny"
FLASH = REPOSITORY / "tests" / "data" / "flash"

KEYS = ["index", "prompt_token_ids", "token_ids", "text", "finish_reason", "error", "usage", "timing"]
USAGE_KEYS = ["prompt_tokens", "cached_tokens", "completion_tokens", "drafted_tokens", "accepted_tokens"]
TIMING_KEYS = ["queue_ms", "prefill_ms", "first_token_ms", "total_ms"]


def deepinfer(*arguments, text="", environment=None):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DEEPINFER_")}
    command = [PROGRAM, *map(str, arguments)]
    if arguments and arguments[0] in ("run", "chat", "inspect", "logits", "doctor", "bench") and "--log-level" not in arguments:
        command += ["--log-level", "warning"]
    return subprocess.run(
        command, input=text.encode() if isinstance(text, str) else text, capture_output=True, timeout=300, check=False,
        env={**clean, **(environment or {})},
    )


def error_of(done, code):
    """The one line that a failed call says; the call must have failed with this code."""
    lines = done.stderr.decode().splitlines()
    assert done.returncode == code, (done.returncode, done.stderr)
    errors = [line for line in lines if line.startswith("error: ")]
    assert len(errors) == 1 and len(lines) == 1, lines
    return errors[0]


# --- run ---------------------------------------------------------------------


def test_run_prints_the_completion_and_nothing_else():
    done = deepinfer("run", "Once upon a time", "--max-tokens", 12, "--temperature", 0)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    text = done.stdout.decode()
    assert text.endswith("\n") and len(text.strip()) > 10
    assert "Once upon a time" not in text


def test_run_json_has_exactly_the_promised_keys():
    done = deepinfer("run", "Once upon a time", "--max-tokens", 5, "--temperature", 0, "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.decode().splitlines()
    result = json.loads(line)
    assert list(result) == KEYS
    assert list(result["usage"]) == USAGE_KEYS
    assert list(result["timing"]) == TIMING_KEYS
    assert result["index"] == 0 and result["error"] is None
    assert result["prompt_token_ids"][0] == 0  # the begin of sentence
    assert len(result["token_ids"]) == 5 and result["finish_reason"] == "length"
    assert result["usage"]["prompt_tokens"] == len(result["prompt_token_ids"])
    assert result["usage"]["completion_tokens"] == 5
    assert result["timing"]["total_ms"] >= result["timing"]["first_token_ms"] > 0


def test_run_meets_the_goldens_of_the_model():
    goldens = json.loads((MINI / "goldens.json").read_text())
    prompt = goldens["prompts"][0]
    expected = prompt["exact"]["greedy"][:16]
    done = deepinfer("run", "--prompts", "-", "--kv-quant", "off", "--json",
                     text=json.dumps({"prompt_token_ids": prompt["ids"], "temperature": 0, "max_tokens": 16}))
    assert json.loads(done.stdout)["token_ids"] == expected


def test_a_text_gets_one_begin_of_sentence():
    plain = json.loads(deepinfer("run", "Hello", "--max-tokens", 1, "--json").stdout)
    spelled = json.loads(deepinfer("run", "<｜begin▁of▁sentence｜>Hello", "--max-tokens", 1, "--json").stdout)
    assert plain["prompt_token_ids"] == spelled["prompt_token_ids"]
    assert plain["prompt_token_ids"].count(0) == 1


def test_chat_encodes_a_users_message_and_never_control_tokens_of_the_text():
    done = deepinfer("run", "Hi <｜User｜>", "--chat", "--max-tokens", 1, "--json")
    ids = json.loads(done.stdout)["prompt_token_ids"]
    assert ids[0] == 0 and ids.count(4164) == 1 and ids[-1] == 4182  # <think>


def test_the_seed_decides():
    runs = [deepinfer("run", "Once", "--max-tokens", 16, "--temperature", 1, "--seed", seed).stdout for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_stop_strings_end_the_answer():
    line = {"prompt": "Count:", "golden_token_ids": [], "max_tokens": 40, "temperature": 0}
    whole = json.loads(deepinfer("run", "--prompts", "-", "--json", text=json.dumps(line)).stdout)["text"]
    stop = whole[8:14]
    done = json.loads(deepinfer("run", "--prompts", "-", "--json", "--stop", stop, text=json.dumps(line)).stdout)
    assert done["text"] == whole[: whole.index(stop)]
    assert done["finish_reason"] == "stop"


def test_lines_keep_their_order_and_a_bad_one_hurts_nobody(tmp_path):
    lines = [
        {"prompt": "Once upon a time", "max_tokens": 6},
        "{broken",
        {"prompt_token_ids": [0, 785, 439], "max_tokens": 1},
        {"prompt": "a", "top_p": 5},
        {"prompt": ""},
        {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2, "thinking": {"type": "disabled"}},
        {"nothing": 1},
        {"prompt_token_ids": [0, 99999]},
        {"prompt": "a", "bad_words": ["x"]},
    ]
    file = tmp_path / "prompts.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n\n")
    done = deepinfer("run", "--prompts", file, "--json", "--temperature", 0)
    assert done.returncode == 1
    results = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [result["index"] for result in results] == list(range(len(lines)))
    assert [result["error"] is None for result in results] == [True, False, True, False, False, True, False, False, False]
    assert [len(results[i]["token_ids"]) for i in (0, 2, 5)] == [6, 1, 2]
    assert "top_p" in results[3]["error"] and "empty" in results[4]["error"] and "99999" in results[7]["error"]
    assert "bad_words is not supported here, only by the service" in results[8]["error"]
    assert results[1]["finish_reason"] == "error"
    # The errors stand on stderr too, one line each.
    assert len(done.stderr.decode().splitlines()) == 6


def test_fields_of_a_line_win_over_flags():
    done = deepinfer("run", "--prompts", "-", "--json", "--max-tokens", 9, "--temperature", 0,
                     text='{"prompt": "Once", "max_tokens": 2}\n{"prompt": "Once"}\n')
    first, second = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert len(first["token_ids"]) == 2 and len(second["token_ids"]) == 9


def test_images():
    image = TINY / "image.png"
    done = deepinfer("run", "The quick brown fox", "--model", TINY, "--image", image, "--max-tokens", 3, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["prompt_token_ids"].count(8) == 8
    assert "no vision tower" in error_of(deepinfer("run", "a", "--image", image), 1)
    assert "absent.png" in error_of(deepinfer("run", "a", "--model", TINY, "--image", "absent.png"), 1)
    message = error_of(deepinfer("run", "a", "--model", TINY, "--image", TINY / "config.json"), 1)
    assert "image 0" in message


def test_bad_prompts_fail_with_one_line():
    assert "empty" in error_of(deepinfer("run", ""), 1)
    assert "UTF-8" in error_of(deepinfer("run", b"\xff\xfe".decode("utf-8", "surrogateescape")), 1)
    long = error_of(deepinfer("run", "word " * 400, "--max-model-len", 256), 1)
    assert "256" in long


# --- usage -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no sub-command, expected one of run, chat, serve, inspect, logits, doctor, bench, recipe"),
        (["tell"], 'unknown sub-command "tell", expected one of run'),
        (["run"], "no prompt"),
        (["run", "a", "--prompts", "b"], "both PROMPT and --prompts"),
        (["run", "a", "--unknown"], "--unknown"),
        (["run", "a", "--max-tokens", "many"], '--max-tokens: "many", expected an integer'),
        (["run", "a", "--max-tokens", "-1"], '--max-tokens: "-1"'),
        (["run", "a", "--temperature", "nan"], '--temperature: "nan"'),
        (["run", "a", "--top-p", "0"], '--top-p: "0", expected a number above 0 to 1'),
        (["run", "a", "--backend", "tpu"], '--backend: "tpu", expected auto, cpu, cuda or ref'),
        (["run", "a", "--backend", "cuda"], 'no cuda backend in this build, expected auto, cpu or ref'),
        (["run", "a", "--gpu-memory", "1GiB"], "no cuda backend in this build"),
        (["run", "a", "--kv-memory", "much"], '--kv-memory: "much", expected bytes such as'),
        (["run", "a", "--drafts", "65"], '--drafts: "65", expected an integer from 0 to 64'),
        (["run", "a", "--draft-schedule", "often"], '--draft-schedule: "often", expected fixed or confidence'),
        (["run", "a", "--scheduling-policy", "lifo"], '--scheduling-policy: "lifo"'),
        (["run", "a", "--batch-invariant", "--verify-mode", "rejection"], "expected exact"),
        (["run", "a", "--regex", "x", "--grammar", "root ::= y"], "2 of --json-schema, --regex and --grammar, expected at most one"),
        (["run", "a", "--json-schema", "absent.json"], "absent.json"),
        (["run", "--prompts", "absent.jsonl"], "absent.jsonl"),
        (["run", "a", "--config", "absent.json"], "absent.json"),
        (["bench", "serve"], 'not in this version: bench "serve", expected latency, throughput, sweep or limits'),
        (["bench", "speed"], 'unknown benchmark "speed"'),
        (["logits", "--out", "x"], "no tokens"),
        (["logits", "--tokens", "1,x", "--out", "x"], '--tokens: "x"'),
    ],
)
def test_usage_errors(arguments, message):
    assert message in error_of(deepinfer(*arguments), 2)


def test_help_and_version():
    assert b"run" in deepinfer("--help").stdout
    assert deepinfer("--version").stdout.startswith(b"deepinfer 0.")
    run = subprocess.run([PROGRAM, "run", "--help"], capture_output=True, check=False)
    assert run.returncode == 0 and b"--max-tokens" in run.stdout


# --- models ------------------------------------------------------------------


def test_models_that_cannot_be_loaded(tmp_path):
    assert "does not exist" in error_of(deepinfer("run", "a", "--model", tmp_path / "absent"), 3)
    assert "does not exist" in error_of(deepinfer("run", "a", "--model", tmp_path / "absent.gguf"), 3)
    (tmp_path / "m.gguf").write_bytes(b"GGUF\x00\x00\x00\x03" + bytes(16))
    assert "big-endian" in error_of(deepinfer("run", "a", "--model", tmp_path / "m.gguf"), 3)
    (tmp_path / "config.json").write_text("{}")
    assert error_of(deepinfer("run", "a", "--model", tmp_path), 3)
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in TINY.iterdir():
        if file.name != "model.safetensors" and not file.name.startswith("golden"):
            (broken / file.name).write_bytes(file.read_bytes())
    assert error_of(deepinfer("run", "a", "--model", broken), 3)
    (broken / "model.safetensors").write_bytes((TINY / "model.safetensors").read_bytes()[:100_000])
    assert "model.safetensors" in error_of(deepinfer("run", "a", "--model", broken), 3)


def test_not_enough_memory():
    assert error_of(deepinfer("run", "a", "--kv-memory", 1), 4)
    assert error_of(deepinfer("run", "a", "--weights-memory", 1), 4)


# --- other commands ----------------------------------------------------------


def test_inspect_gives_the_sums_of_flash_from_its_config_alone():
    for path in (FLASH, FLASH / "config.json"):
        done = deepinfer("inspect", path, "--json")
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert report["weights"]["tensors"] == 96_085
        assert report["weights"]["bytes"] == 510_286_023_000
        assert report["cache"]["bytes_per_token"] == 890
        assert sum(part["bytes"] for part in report["weights"]["parts_in_official_form"]) == 510_286_023_000
        assert sum(group["tensors"] for group in report["weights"]["groups"]) == 96_085
    text = deepinfer("inspect", FLASH).stdout.decode()
    assert "96,085 tensors, 510,286,023,000 bytes" in text and "890 bytes per token" in text


def test_inspect_reads_the_files_of_a_model():
    report = json.loads(deepinfer("inspect", MINI, "--json").stdout)
    assert report["weights"]["source"] == "files"
    assert report["memory_plan"]["fits"] is True
    plan = report["memory_plan"]
    parts = ["weights_resident_bytes", "weights_on_demand_bytes", "cache_bytes", "workspace_bytes", "image_bytes"]
    assert plan["total_bytes"] == sum(plan[part] for part in parts)
    assert error_of(deepinfer("inspect", "absent"), 3)


def read_logits(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    entry = header["logits"]
    begin, end = (8 + length + offset for offset in entry["data_offsets"])
    return entry["dtype"], entry["shape"], data[begin:end]


def test_logits_do_not_depend_on_chunks(tmp_path):
    ids = list(range(10, 80))
    out, chunked, last, file = (tmp_path / name for name in ("a", "b", "c", "ids.json"))
    file.write_text(json.dumps(ids))
    for arguments in (
        ["--tokens", ",".join(map(str, ids)), "--all-rows", "--out", out],
        ["--tokens-file", file, "--all-rows", "--chunk", 7, "--out", chunked],
        ["--tokens-file", file, "--out", last],
    ):
        done = deepinfer("logits", "--model", MINI, *arguments)
        assert done.returncode == 0, done.stderr
    dtype, shape, values = read_logits(out)
    assert dtype == "F32" and shape == [70, 4224]
    assert read_logits(chunked) == (dtype, shape, values)
    assert read_logits(last) == (dtype, [1, 4224], values[-4 * 4224 :])
    assert "99999" in error_of(deepinfer("logits", "--model", MINI, "--tokens", "99999", "--out", out), 1)


def test_logits_of_another_shape_equal_the_reference(tmp_path):
    config = json.loads((TINY / "config.json").read_text())
    config["vision_config"] = None
    config["text_config"].update({
        "num_hidden_layers": 5, "num_nextn_predict_layers": 0, "compress_ratios": [0, 4, 4, 1, 1], "kv_source_layer_ids": [1, 3],
        "index_source_layer_ids": [1, 3, 4], "candidate_source_layer_id": None, "engram_layer_ids": [], "engram_num_embeddings": [],
        "dspark_target_layer_ids": [], "hidden_size": 96, "num_attention_heads": 6, "o_groups": 3, "n_routed_experts": 5,
        "num_experts_per_tok": 3, "hc_mult": 2})
    (tmp_path / "config.json").write_text(json.dumps(config))
    rows = {}
    for backend in ("ref", "cpu"):
        out = tmp_path / f"{backend}.safetensors"
        done = deepinfer("logits", "--model", tmp_path, "--load-format", "dummy", "--seed", 3, "--backend", backend, "--kv-quant", "off",
                         "--tokens", ",".join(str(7 * i % 384) for i in range(60)), "--all-rows", "--out", out)
        assert done.returncode == 0, done.stderr
        dtype, shape, values = read_logits(out)
        assert dtype == "F32" and shape == [60, 384]
        rows[backend] = struct.unpack(f"<{60 * 384}f", values)
    bound = 1e-4 * (1 + max(abs(value) for value in rows["ref"]))
    far = sum(abs(a - b) > bound for a, b in zip(rows["ref"], rows["cpu"]))
    assert far <= 0.02 * 60 * 384  # a router choice on the edge may move a row


def test_doctor():
    report = json.loads(deepinfer("doctor", "--json").stdout)
    assert report["backend"]["name"].startswith("cpu") and report["model"]["ok"] is True
    assert report["cpu"]["cores_usable"] >= 1 and report["memory"]["total_bytes"] > 0
    lines = deepinfer("doctor").stdout.decode().splitlines()
    assert [line.split()[0] for line in lines] == ["version", "cpu", "features", "cores", "memory", "gpus", "backend", "model"]


def test_chat_answers_line_by_line():
    done = deepinfer("chat", "--max-tokens", 4, "--temperature", 0, text="/think off\nHello\n\nAgain\n/exit\nnever\n")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.decode().splitlines()) >= 3


# --- configuration -----------------------------------------------------------


def test_unknown_names_are_reported():
    done = deepinfer("run", "a", "--max-tokens", 1, environment={"DEEPINFER_NO_SUCH": "1", "DEEPINFER_NCCL_NUM_SMS": "4"})
    assert done.returncode == 0
    warnings = done.stderr.decode()
    assert "unknown environment variable DEEPINFER_NO_SUCH" in warnings
    assert "DEEPINFER_NCCL_NUM_SMS has no effect: one process on one machine" in warnings


def test_flag_environment_file_default(tmp_path):
    config = tmp_path / "c.json"
    config.write_text(json.dumps({"max_model_len": 300, "threads": 1, "max-num-seqs": 3, "surprise": 1}))
    done = deepinfer("inspect", MINI, "--json", "--config", config, "--max-num-seqs", 2, environment={"DEEPINFER_MAX_MODEL_LEN": "200"})
    plan = json.loads(done.stdout)["memory_plan"]
    assert plan["max_model_len"] == 200 and plan["max_num_seqs"] == 2
    assert 'unknown key "surprise"' in done.stderr.decode()
    debug = deepinfer("inspect", MINI, "--json", "--config", config, "--log-level", "debug").stderr.decode()
    assert f"option threads = 1 (file {config})" in debug
    config.write_text('{"threads": "several"}')
    assert "threads" in error_of(deepinfer("doctor", "--config", config), 2)


def test_switches_can_be_turned_off_by_flag_and_file(tmp_path):
    off = deepinfer("doctor", "--log-level", "debug")
    assert off.returncode == 0
    done = deepinfer("run", "a", "--max-tokens", 1, "--no-prefix-cache", "--no-async", "--batch-invariant", "--log-level", "debug")
    assert done.returncode == 0, done.stderr
    debug = done.stderr.decode()
    for line in ("prefix-cache = false (flag)", "async = false (flag)", "batch-invariant = true (flag)"):
        assert f"option {line}" in debug
    config = tmp_path / "c.json"
    config.write_text(json.dumps({"prefix_cache": False, "scheduling_policy": "priority"}))
    debug = deepinfer("run", "a", "--max-tokens", 1, "--config", config, "--prefix-cache", "--log-level", "debug").stderr.decode()
    assert "option prefix-cache = true (flag)" in debug and f"option scheduling-policy = priority (file {config})" in debug


def test_banned_ids_and_the_cap_of_top_k_hold_for_every_request():
    def ids(**environment):
        done = deepinfer("run", "Once upon a time", "--max-tokens", 12, "--temperature", 1, "--seed", 3, "--json", environment=environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["token_ids"]

    free = ids()
    greedy = ids(DEEPINFER_SAMPLER_FORCE_TOPK="1")
    assert greedy == ids(DEEPINFER_SAMPLER_FORCE_TOPK="1") != free
    assert greedy[0] not in ids(DEEPINFER_SAMPLER_FORCE_TOPK="1", DEEPINFER_DECODE_TOKEN_BLACKLIST=str(greedy[0]))[:1]
    assert "99999" in error_of(deepinfer("run", "a", "--banned-token-ids", "5,99999"), 2)


def test_statistics_are_logged_when_asked_for():
    done = deepinfer("run", "a", "--max-tokens", 8, "--log-interval-steps", 2, "--log-level", "info")
    assert done.returncode == 0 and b"engine: 2 steps" in done.stderr


def test_answers_follow_a_schema_an_expression_or_a_grammar(tmp_path):
    schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["age"]}
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    (tmp_path / "list.ebnf").write_text('root ::= item (", " item){2}\nitem ::= [a-z]{2,6}')
    for argument in (json.dumps(schema), tmp_path / "schema.json"):
        done = deepinfer("run", "Anna is 34.", "--json-schema", argument, "--seed", 1)
        assert done.returncode == 0, done.stderr
        assert 0 <= json.loads(done.stdout)["age"] <= 99
    done = deepinfer("run", "The date is", "--regex", "[0-9]{4}-[0-9]{2}", "--seed", 2)
    assert re.fullmatch(r"\d{4}-\d{2}\n", done.stdout.decode()), done.stdout
    done = deepinfer("run", "Three words:", "--grammar", tmp_path / "list.ebnf", "--seed", 3)
    assert re.fullmatch(r"[a-z]{2,6}(, [a-z]{2,6}){2}\n", done.stdout.decode()), done.stdout


def test_fields_of_a_prompt_line_constrain_its_answer():
    lines = [
        {"prompt": "Yes or no?", "guided_choice": ["yes", "no"]},
        {"prompt": "A number:", "structured_outputs": {"regex": "[1-9]"}},
        {"messages": [{"role": "user", "content": "As JSON."}], "thinking": {"type": "disabled"},
         "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": [1, "a"]}}}},
        {"prompt": "Bad", "guided_json": {"type": "object", "propertyNames": {"maxLength": 3}}},
        {"prompt": "Of the flag"},
    ]
    done = deepinfer("run", "--prompts", "-", "--json", "--regex", "z{3}", text="\n".join(map(json.dumps, lines)))
    assert done.returncode == 1
    results = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert results[0]["text"] in ("yes", "no")
    assert results[1]["text"] in list("123456789")
    assert json.loads(results[2]["text"]) == [1, "a"]
    assert "schema.propertyNames" in results[3]["error"]
    assert results[4]["text"] == "zzz"


def test_hardware_that_is_not_there():
    for name in ("ascend", "cuda", "nvidia"):
        message = error_of(deepinfer("run", "a", environment={"DEEPINFER_ACCELERATOR": name}), 2)
        assert "expected auto" in message
    done = deepinfer("run", "a", "--max-tokens", 1, environment={"DEEPINFER_ACCELERATOR": "cpu"})
    assert done.returncode == 0
    assert "DEEPINFER_CPU_ISA" in error_of(deepinfer("run", "a", environment={"DEEPINFER_CPU_ISA": "z80"}), 2)


def test_the_model_of_the_environment():
    done = deepinfer("doctor", "--json", environment={"DEEPINFER_HF_MODEL_DIR": str(TINY)})
    assert json.loads(done.stdout)["model"]["path"] == str(TINY)
