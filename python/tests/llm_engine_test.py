"""LLMEngine and EngineArgs, and streams of an LLM, on the embedded model."""

import copy
import gc
import pathlib
import threading
import time

import numpy
import pytest

from deepinfer import LLM, EngineArgs, LLMEngine, RequestOutput, SamplingParams

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
MODEL = str(REPOSITORY / "models" / "v41-mini")
ARGUMENTS = {"max_model_len": 512, "max_num_seqs": 4, "disable_log_stats": True}


@pytest.fixture(scope="module")
def llm():
    with LLM(MODEL, max_model_len=512, max_num_seqs=4) as model:
        yield model


@pytest.fixture(scope="module")
def engine():
    with LLMEngine.from_engine_args(EngineArgs(model=MODEL, **ARGUMENTS)) as one:
        yield one


@pytest.fixture(scope="module")
def prompt(engine):
    return numpy.array([0, *engine.get_tokenizer().encode("Once upon a time")], dtype=numpy.int32)


def greedy(**more):
    return SamplingParams(temperature=0.0, **{"max_tokens": 8, **more})


def drain(engine, *, steps_max=2000):
    records = {}
    for _ in range(steps_max):
        if not engine.has_unfinished_requests():
            return records
        for record in engine.step():
            records.setdefault(record.request_id, []).append(record)
    raise AssertionError("requests do not end")


# --- LLMEngine ---------------------------------------------------------------


def test_every_token_is_a_record_and_the_last_one_finishes(engine, prompt, llm):
    handle = engine.add_request("user", "a", greedy(), prompt)
    assert engine.get_num_unfinished_requests() == 1 and handle.enqueued and handle.error is None
    records = drain(engine)["a"]
    assert [record.num_output_tokens for record in records] == list(range(1, 9))
    assert [record.finished for record in records] == [False] * 7 + [True]
    assert records[-1].finish_reason == "length" == handle.finish_reason and handle.finished
    assert len(handle) == len(prompt) + 8
    assert all(record.prompt_len == len(prompt) and record.max_num_batched_tokens > 0 for record in records)
    assert all(record.token_logprobs < 0.0 for record in records)
    expected = llm.generate("Once upon a time", greedy(), use_tqdm=False)[0]
    assert [record.token_id for record in records] == expected.token_ids
    assert "".join(record.text_delta for record in records) == expected


def test_requests_that_cannot_run_have_a_handle_with_an_error_and_one_record(engine, prompt):
    empty = engine.add_request("u", "empty", greedy(), [])
    checkpoints = engine.add_request("u", "checkpoints", greedy(), prompt, chunk_checkpoints=[5])
    bad_media = engine.add_request("u", "media", greedy(), prompt, multi_modal_data={"pictures": []})
    image = engine.add_request("u", "image", greedy(), prompt, multi_modal_data={"image_bytes": [b"no image"]})
    good = engine.add_request("u", "good", greedy(), prompt)
    long = engine.add_request("u", "long", greedy(), [5] * 600)
    assert "no token ids" in empty.error and "chunk_checkpoints" in checkpoints.error and "pictures" in bad_media.error
    assert image.error is not None and good.error is None
    records = drain(engine)
    assert set(records) == {"empty", "checkpoints", "media", "image", "good", "long"}
    for name in ("empty", "checkpoints", "media", "image", "long"):
        (record,) = records[name]
        assert record.finished and record.error and record.token_id == -1
    assert len(records["good"]) == 8
    assert records["long"][0].finish_reason == "prompt_length_exceeded" == long.finish_reason


def test_a_request_id_in_use_is_refused_and_the_first_one_runs_on(engine, prompt):
    first = engine.add_request("u", 7, greedy(), prompt)
    second = engine.add_request("u", 7, greedy(), prompt)
    assert second.error is not None and "7" in second.error and second.finished and not first.finished
    assert len(drain(engine)[7]) == 8
    assert engine.add_request("u", 7, greedy(max_tokens=1), prompt).error is None
    drain(engine)


def test_abort_counts_requests_and_tokens_in_every_state(engine, prompt):
    for name in "abcdef":
        engine.add_request("u", name, greedy(max_tokens=200), prompt)
    held = engine.add_request("u", "held", greedy(), prompt, enqueue=False)
    seen = 0
    while seen == 0:
        seen = sum(record.request_id == "a" for record in engine.step())
    assert engine.abort_request("a") == (1, len(prompt) + seen)
    count, tokens = engine.abort_request(["a", "b", "f", "held", "nobody"])  # running, twice, waiting, never handed over, unknown
    assert count >= 3 and tokens >= 3 * len(prompt)
    assert engine.abort_request(("c", "d", "e"))[0] == 3
    records = drain(engine)
    assert {name: records[name][-1].finish_reason for name in [*"abcdef", "held"]} == dict.fromkeys([*"abcdef", "held"], "abort")
    assert all(sum(record.finished for record in records[name]) == 1 for name in records)
    assert held.finish_reason == "abort"
    assert engine.abort_request(["a", "held"]) == (0, 0)


def test_a_held_request_runs_when_it_is_handed_over(engine, prompt):
    handle = engine.add_request("u", "h", greedy(), prompt, enqueue=False, extra={"mine": 1})
    assert not handle.enqueued and handle.extra == {"mine": 1} and engine.has_unfinished_requests()
    assert engine.step() == []
    engine.enqueue_request("h")
    engine.enqueue_request("h")
    assert len(drain(engine)["h"]) == 8
    with pytest.raises(ValueError, match="request_id 'h' is unknown"):
        engine.enqueue_request("h")


def test_arrival_time_is_where_the_queue_begins(engine, prompt):
    engine.add_request("u", "late", greedy(max_tokens=1), prompt, arrival_time=time.time() - 100.0)
    assert drain(engine)["late"][0].queue_ms >= 100_000.0
    with pytest.raises(ValueError, match="arrival_time: 5.0, expected seconds since the epoch"):
        engine.add_request("u", "never", greedy(), prompt, arrival_time=5.0)
    assert not engine.has_unfinished_requests()


def test_flush_leaves_nothing_running_and_loses_nothing(engine, prompt):
    engine.add_request("u", "x", greedy(), prompt)
    records = [record for _ in range(3) for record in engine.step()]
    records += engine.flush_inflight_reqs()
    records += drain(engine).get("x", [])
    assert [record.num_output_tokens for record in records] == list(range(1, 9))


def test_records_stay_as_they_are_through_a_thousand_steps(engine, prompt):
    engine.add_request("u", "kept", greedy(logprobs=True), prompt)
    records = drain(engine)["kept"]
    copies = [RequestOutput.clone(record) for record in records]
    steps = 0
    while steps < 1000:
        for name in range(4):
            engine.add_request("u", name, greedy(max_tokens=120, seq_seed=name, ignore_eos=True), prompt)
        while engine.has_unfinished_requests():
            engine.step()
            steps += 1
    assert records == copies == copy.deepcopy(records)


def test_a_closed_engine_says_so(prompt):
    engine = LLMEngine.from_engine_args(EngineArgs(model=MODEL, **ARGUMENTS))
    engine.add_request("u", "x", greedy(), prompt)
    engine.close()
    engine.close()
    assert not engine.has_unfinished_requests()
    with pytest.raises(ValueError, match="closed"):
        engine.step()


# --- EngineArgs --------------------------------------------------------------


def test_names_and_defaults_of_the_reference():
    arguments = EngineArgs()
    assert arguments.served_model_name == "deepinfer-model" and arguments.load_format == "auto" and arguments.seed == 0
    assert (arguments.data_parallel_size, arguments.context_parallel_size, arguments.expert_parallel_size) == (0, 1, 1)
    assert (arguments.engram_parallel_size, arguments.engine_rank, arguments.engine_group_rank) == (0, 0, 0)
    assert arguments.gpu_memory_utilization == 0.9 and arguments.max_num_seqs == 256 and arguments.engine_type == "NORMAL"
    assert arguments.ignore_len == 128 * 2**20 and arguments.tokens_per_block == -1 and arguments.lookahead_tokens == 0
    assert arguments.max_model_len is None and arguments.max_num_batched_tokens is None
    assert arguments.disable_log_stats is False and arguments.offline_inference is False
    assert arguments.chunked_prefill is True and arguments.stop_preempted_request is False  # ours


def test_what_is_said_is_kept_and_what_is_not_is_left_open():
    said = dict(EngineArgs(model="m", max_num_seqs=256, drafts=3, kv_memory="1GiB", prefix_cache=False, step_ms_max=2.5,
                           banned_token_ids=[1, 2], async_scheduling=True).settings())
    assert said["max_num_seqs"] == "256" and said["drafts"] == "3" and said["kv_memory"] == "1GiB"
    assert said["prefix_cache"] == "false" and said["step_ms_max"] == "2.5" and said["banned_token_ids"] == "1,2" and said["async"] == "true"
    assert "max_num_seqs" not in dict(EngineArgs(model="m").settings())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"engine_type": "PROMPT"}, "engine_type: 'PROMPT' is not supported in this version"),
        ({"tokens_per_block": 64}, "tokens_per_block: 64 is not supported"),
        ({"data_parallel_size": 2}, "data_parallel_size: 2 is not supported"),
        ({"revision": "main"}, "revision: 'main' is not supported"),
        ({"gpu_memory_utilization": 0}, "gpu_memory_utilization: 0"),
        ({"load_format": "fast"}, 'load_format: "fast", expected auto or dummy'),
        ({"max_model_len": 0}, 'max_model_len: "0", expected an integer from 1'),
        ({"prefix_cache": "often"}, "prefix_cache: 'often', expected True or False"),
        ({"drafts": True}, "drafts: True"),
        ({"scheduling_policy": "lifo"}, 'scheduling_policy: "lifo", expected fcfs'),
        ({"batch_invariant": True, "verify_mode": "rejection"}, "expected exact"),
        ({"banned_token_ids": [99999]}, "banned-token-ids: 99999, expected ids from 0 to 4223"),
    ],
)
def test_arguments_that_cannot_be_honoured_say_so(arguments, message):
    with pytest.raises(ValueError, match=message):
        LLMEngine.from_engine_args(EngineArgs(model=MODEL, **{**ARGUMENTS, **arguments}))


def test_arguments_without_effect_warn():
    with pytest.warns(UserWarning, match="lookahead_tokens has no effect"):
        EngineArgs(lookahead_tokens=3).check()
    with pytest.warns(UserWarning, match="trust_remote_code has no effect"):
        EngineArgs(trust_remote_code=True).check()


def test_the_environment_is_read_when_an_engine_is_made(monkeypatch):
    monkeypatch.setenv("DEEPINFER_MAX_MODEL_LEN", "200")
    monkeypatch.setenv("DEEPINFER_NO_SUCH", "1")
    monkeypatch.setenv("DEEPINFER_GC_INTERVAL_STEP", "1")
    with pytest.warns(RuntimeWarning) as caught:
        model = LLM(MODEL)
    texts = [str(one.message) for one in caught]
    assert "unknown environment variable DEEPINFER_NO_SUCH" in texts
    assert "DEEPINFER_GC_INTERVAL_STEP has no effect: no Python runs in the loop" in texts
    with model:
        assert model._session.max_model_len == 200
        monkeypatch.setenv("DEEPINFER_MAX_MODEL_LEN", "100")
        assert model._session.max_model_len == 200
    monkeypatch.delenv("DEEPINFER_NO_SUCH")
    monkeypatch.delenv("DEEPINFER_GC_INTERVAL_STEP")
    with LLM(MODEL, max_model_len=300) as model:  # what the caller says wins
        assert model._session.max_model_len == 300
    monkeypatch.setenv("DEEPINFER_MAX_MODEL_LEN", "many")
    with pytest.raises(ValueError, match='DEEPINFER_MAX_MODEL_LEN: "many", expected an integer'):
        LLM(MODEL)


# --- streams -----------------------------------------------------------------


def test_a_stream_gives_the_tokens_and_the_text_of_generate(llm):
    prompts = ["Once upon a time", "The cat", "A bird"]
    expected = llm.generate(prompts, greedy(), use_tqdm=False)
    tokens, texts = [[] for _ in prompts], [""] * 3
    for record in llm.stream(prompts, greedy()):
        tokens[record.prompt_index].append(record.token_id)
        texts[record.prompt_index] += record.text_delta
    assert tokens == [one.token_ids for one in expected] and texts == list(expected)


def test_a_stream_that_is_left_aborts_its_requests(llm):
    with llm.stream(["Once upon a time"] * 6, greedy(max_tokens=400, ignore_eos=True)) as stream:
        next(stream)
    assert list(stream) == []
    forgotten = llm.stream("Once upon a time", greedy(max_tokens=400, ignore_eos=True))
    next(forgotten)
    del forgotten
    gc.collect()
    llm.generate("a", greedy(max_tokens=2), use_tqdm=False)
    assert llm._session.unfinished_count() == 0


def test_abort_ends_a_stream_midway_and_not_its_neighbour(llm):
    records = {0: [], 1: []}
    for record in llm.stream(["Once upon a time", "The cat"], greedy(max_tokens=40, ignore_eos=True)):
        records[record.prompt_index].append(record)
        if record.prompt_index == 0 and record.num_output_tokens == 5:
            llm.abort(record.request_id)
            llm.abort([record.request_id, 10**9])
    assert records[0][-1].finish_reason == "abort" and 5 <= records[0][-1].num_output_tokens < 40
    assert records[1][-1].finish_reason == "length" and records[1][-1].num_output_tokens == 40
    assert sum(record.finished for record in records[0]) == 1


def test_streams_share_the_steps_and_generate_may_run_between(llm):
    alone = [[r.token_id for r in llm.stream(text, greedy(max_tokens=20))] for text in ("The cat", "A bird")]
    first, second = llm.stream("The cat", greedy(max_tokens=20)), llm.stream("A bird", greedy(max_tokens=20))
    got = [[next(first).token_id], [next(second).token_id]]
    llm.generate("Once", greedy(max_tokens=3), use_tqdm=False)
    got[1] += [r.token_id for r in second]
    got[0] += [r.token_id for r in first]
    assert got == alone


def test_streams_of_several_threads(llm):
    texts = ["The cat", "A bird", "Once upon a time", "One day"]
    expected = [one.token_ids for one in llm.generate(texts, greedy(max_tokens=12), use_tqdm=False)]
    got = [None] * 4

    def run(index):
        got[index] = [record.token_id for record in llm.stream(texts[index], greedy(max_tokens=12))]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == expected


def test_a_stream_of_prompts_that_cannot_run_ends_with_their_errors(llm):
    records = list(llm.stream(prompt_token_ids=[[], [5] * 600, [0, 785]], sampling_params=greedy(max_tokens=2)))
    last = {record.prompt_index: record for record in records if record.finished}
    assert last[0].finish_reason == "error" and last[1].finish_reason == "prompt_length_exceeded" and last[2].error is None
    assert len(records) == 4
