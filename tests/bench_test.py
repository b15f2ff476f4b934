"""`deepinfer bench` and examples/sweep, end to end."""

import json
import os
import subprocess
import sys

import pytest

from cli_test import PROGRAM, REPOSITORY, deepinfer, error_of

SWEEP = REPOSITORY / "examples" / "sweep"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench", "throughput", "--concurrency", "2"], "--concurrency with bench throughput, expected bench sweep"),
        (["bench", "latency", "--input-len", "2"], "--input-len with bench latency, expected bench throughput or sweep"),
        (["bench", "sweep", "--prompt-tokens", "2"], "--prompt-tokens with bench sweep, expected bench latency"),
        (["bench", "sweep", "--concurrency", "1,,4"], '--concurrency: "", expected integers from 1 to 65536'),
        (["bench", "sweep", "--concurrency", "1,x"], '--concurrency: "x", expected integers'),
        (["bench", "sweep", "--concurrency", "0"], '--concurrency: "0", expected integers'),
        (["bench", "sweep", "--concurrency", "8", "--max-num-seqs", "4"], "--concurrency 8 with --max-num-seqs 4"),
        (["bench", "sweep", "--plot", "a.png"], "--plot a.png: this program draws no pictures, expected examples/sweep/plot.py"),
        (["bench", "throughput", "--prompts", "absent.jsonl"], "absent.jsonl"),
        (["bench", "throughput", "--prompts", "f", "--input-len", "4"], "--input-len 4 together with --prompts"),
        (["bench", "throughput", "--length-spread", "1.5"], '--length-spread: "1.5"'),
    ],
)
def test_usage_errors_of_benchmarks(arguments, message):
    assert message in error_of(deepinfer(*arguments), 2)


def test_bench():
    limits = json.loads(deepinfer("bench", "limits", "--json").stdout)
    assert limits["memory_gb_s"] > 0 and limits["gflop_s"] > 0 and limits["threads"] >= 1
    done = deepinfer("bench", "latency", "--json", "--prompt-tokens", 32, "--output-tokens", 8)
    assert done.returncode == 0, done.stderr
    latency = json.loads(done.stdout)
    for name in ("prefill", "decode"):
        assert latency[name]["tokens_per_s"] > 0 and latency[name]["floor_tokens_per_s"] > 0
    assert latency["runs"] >= 5


LOAD_KEYS = [
    "benchmark", "model", "backend", "max_num_seqs", "max_num_batched_tokens", "drafts", "draft_schedule", "batch_invariant",
    "temperature",
]
FIGURE_KEYS = [
    "requests", "wall_s", "prompt_tokens", "cached_tokens", "output_tokens", "prompt_tokens_per_s", "output_tokens_per_s",
    "tokens_per_s_per_user", "first_token_ms", "inter_token_ms", "inter_chunk_ms", "acceptance", "preemptions", "steps",
    "schedule_us_per_step", "cpu_bubble_us_per_step", "model_ms_per_step",
]


def check_figures(figures, requests):
    assert figures["requests"] == requests
    assert figures["output_tokens_per_s"] == pytest.approx(figures["output_tokens"] / figures["wall_s"])
    assert figures["prompt_tokens_per_s"] == pytest.approx(figures["prompt_tokens"] / figures["wall_s"])
    for name in ("first_token_ms", "inter_token_ms", "inter_chunk_ms"):
        assert 0 < figures[name]["p50"] <= figures[name]["p99"]
    drafts = figures["acceptance"]
    assert sum(position["accepted"] for position in drafts["by_position"]) == drafts["accepted_tokens"]
    assert sum(position["verified"] for position in drafts["by_position"]) == drafts["drafted_tokens"]
    assert 0 <= drafts["accepted_tokens"] <= drafts["drafted_tokens"]
    if drafts["rounds"]:
        assert drafts["mean_accepted_length"] == pytest.approx(1 + drafts["accepted_tokens"] / drafts["rounds"])
    else:
        assert drafts["mean_accepted_length"] is None


def bench_json(*arguments):
    done = deepinfer("bench", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    return json.loads(done.stdout)


def test_bench_throughput_counts_every_token_of_every_request():
    arguments = ("throughput", "--prompts-count", 6, "--input-len", 40, "--output-len", 8, "--length-spread", 0)
    figures = bench_json(*arguments, "--drafts", 3, "--draft-schedule", "fixed")
    assert list(figures) == LOAD_KEYS + FIGURE_KEYS
    check_figures(figures, 6)
    assert figures["prompt_tokens"] == 6 * 40 and figures["output_tokens"] == 6 * 8
    assert figures["drafts"] == 3 and figures["acceptance"]["rounds"] > 0
    assert len(figures["acceptance"]["by_position"]) >= 3 and figures["preemptions"] == 0
    without = bench_json(*arguments, "--drafts", 0, "--batch-invariant")
    check_figures(without, 6)
    assert without["acceptance"]["drafted_tokens"] == 0 and without["acceptance"]["tokens_per_decode_step"] == 1
    assert without["batch_invariant"] is True and without["output_tokens"] == 6 * 8


def test_bench_throughput_takes_prompts_of_a_file_and_shares_their_prefixes(tmp_path):
    lines = tmp_path / "p.jsonl"
    lines.write_text(json.dumps({"prompt_token_ids": [5 + i % 90 for i in range(300)], "max_tokens": 3}) + "\n"
                     + json.dumps({"prompt": "Once upon a time", "max_tokens": 2}) + "\n")
    figures = bench_json("throughput", "--prompts", lines, "--prompts-count", 5, "--max-num-seqs", 1)
    check_figures(figures, 5)
    assert figures["output_tokens"] == 3 * 3 + 2 * 2
    # The long prompt comes three times; prefixes of the warm-up are not shared with what is measured.
    assert figures["cached_tokens"] == 2 * 256
    lines.write_text('{"prompt": "a", "stop": ["b"]}')
    assert "prompt 0: stop: 1 strings, expected none" in error_of(deepinfer("bench", "throughput", "--prompts", lines), 2)
    lines.write_text('{"prompt": "a", "response_format": {"type": "json_object"}}')
    refused = error_of(deepinfer("bench", "throughput", "--prompts", lines), 2)
    assert "prompt 0: a " in refused and "for the answer, expected none" in refused


def test_bench_says_which_request_failed(tmp_path):
    done = deepinfer("bench", "throughput", "--prompts-count", 2, "--input-len", 90, "--output-len", 30, "--length-spread", 0,
                     "--max-model-len", 100)
    assert "request 0: 90 prompt and 30 output tokens, expected at most 100 together" in error_of(done, 2)
    lines = tmp_path / "p.jsonl"
    lines.write_text('{"prompt": "a"}\n{"prompt_token_ids": [1, 99999999]}\n')
    done = deepinfer("bench", "throughput", "--prompts", lines, "--prompts-count", 2, "--output-len", 2)
    assert "request 1: " in error_of(done, 1) and "99999999" in done.stderr.decode()
    assert done.stdout == b""


def test_bench_sweep_measures_each_concurrency():
    sweep = bench_json("sweep", "--concurrency", "1,3", "--prompts-count", 4, "--input-len", 24, "--output-len", 6,
                       "--drafts", 2, "--draft-schedule", "fixed")
    assert list(sweep) == LOAD_KEYS + ["points"] and sweep["max_num_seqs"] == 3
    assert [point["concurrency"] for point in sweep["points"]] == [1, 3]
    for point in sweep["points"]:
        check_figures(point, 4)
        convention = point["all_drafts_accepted"]
        drafts = point["acceptance"]
        tokens = point["output_tokens"] + drafts["drafted_tokens"] - drafts["accepted_tokens"]
        assert convention["output_tokens_per_s"] == pytest.approx(tokens / point["wall_s"])
        assert convention["output_tokens_per_s"] >= point["output_tokens_per_s"]
    # The same requests at each point, and no prefix of another point.
    first, second = sweep["points"]
    assert first["prompt_tokens"] == second["prompt_tokens"] and first["output_tokens"] == second["output_tokens"]
    assert first["cached_tokens"] == second["cached_tokens"] == 0
    table = deepinfer("bench", "sweep", "--concurrency", "2", "--prompts-count", 2, "--input-len", 8, "--output-len", 2)
    lines = table.stdout.decode().splitlines()
    assert len(lines) == 3 and lines[2].split()[0] == "2"


# --- examples/sweep ----------------------------------------------------------


def script(name, *arguments, path=""):
    command = [sys.executable, str(SWEEP / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=300, check=False, env={**os.environ, "PYTHONPATH": str(path)})


def test_sweep_script_compares_variants(tmp_path):
    out = tmp_path / "sweep.json"
    done = script("sweep.py", "--program", PROGRAM, "--out", out, "--concurrency", "1,2", "--rounds", 2, "--variant", "drafts:",
                  "--variant", "none:--drafts 0", "--", "--prompts-count", 2, "--input-len", 8, "--output-len", 3,
                  "--log-level", "warning")
    assert done.returncode == 0, done.stderr
    variants = json.loads(out.read_text())["variants"]
    assert list(variants) == ["drafts", "none"] and variants["none"]["drafts"] == 0
    for sweep in variants.values():
        assert [point["concurrency"] for point in sweep["points"]] == [1, 2]
        for point in sweep["points"]:
            speeds = point["output_tokens_per_s_of_rounds"]
            assert len(speeds) == 2 and point["output_tokens_per_s"] == min(speeds)
    assert len(done.stdout.decode().splitlines()) == 6 and b"of drafts" in done.stdout


@pytest.mark.parametrize("variant", ["drafts", ":--drafts 0"])
def test_sweep_script_refuses_a_variant_without_a_name(variant, tmp_path):
    done = script("sweep.py", "--program", PROGRAM, "--out", tmp_path / "o", "--variant", variant)
    assert done.returncode == 2 and b"expected NAME:FLAGS" in done.stderr


def test_plot_script_says_what_is_missing(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError")
    sweep = tmp_path / "s.json"
    sweep.write_text('{"variants": {}}')
    done = script("plot.py", sweep, "--out", tmp_path / "s.png", path=tmp_path)
    assert done.returncode == 1 and b"no module matplotlib, expected it installed" in done.stderr
    sweep.write_text('{"benchmark": "latency"}')
    done = script("plot.py", sweep, "--out", tmp_path / "s.png", path=tmp_path)
    assert done.returncode == 1 and b"neither the output of bench sweep --json nor of sweep.py" in done.stderr
