"""Programs written for the reference implementation: its example scripts, its words, its promises."""

import importlib
import math
import pathlib
import sys
import threading

import pytest

import deepinfer
from deepinfer import LLM, EngineArgs, LLMEngine, RequestError, SamplingParams
from deepinfer.finish_reasons import FinishReasons

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
MODEL = str(REPOSITORY / "models" / "v41-mini")


@pytest.fixture(scope="module")
def llm():
    with LLM(MODEL, max_model_len=512, max_num_seqs=4) as model:
        yield model


def greedy(**more):
    return SamplingParams(temperature=0.0, **{"max_tokens": 8, **more})


# 1. Scripts in the reference's style run as they are.


def test_an_offline_script():
    llm = LLM(model=MODEL, expert_parallel_size=1, max_model_len=512, max_num_seqs=8, max_num_batched_tokens=512,
              gpu_memory_utilization=0.9, chunked_prefill=True, disable_log_stats=True)
    outputs = llm.generate(["Hello, my name is", "The capital of France is"],
                           SamplingParams(temperature=0.6, top_p=0.95, top_k=-1, max_tokens=8, ignore_eos=True, seq_seed=1))
    assert len(outputs) == 2 and all(isinstance(text, str) and text for text in outputs)
    llm.close()


def test_a_step_loop_script():
    arguments = EngineArgs(model=MODEL, max_model_len=512, max_num_seqs=8, seed=0, disable_log_stats=True, engine_type="NORMAL")
    engine = LLMEngine.from_engine_args(arguments)
    tokenizer = engine.get_tokenizer()
    for number in range(3):
        engine.add_request(user_id=0, request_id=number, prompt_token_ids=[0, *tokenizer.encode("Once upon a time")],
                           sampling_params=SamplingParams(temperature=0.0, max_tokens=5, top_p=1.0), multi_modal_data=None)
    answers = {}
    while engine.has_unfinished_requests():
        for output in engine.step():
            answers.setdefault(output.request_id, []).append(output.token_id)
            if output.finished:
                assert output.finish_reason == "length"
    assert engine.get_num_unfinished_requests() == 0
    assert len(answers) == 3 and answers[0] == answers[1] == answers[2]
    engine.close()


@pytest.mark.parametrize("name", ["offline_inference"])
def test_the_example_scripts(name, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(REPOSITORY / "examples"))
    monkeypatch.setattr(sys, "argv", [name, "--model", MODEL, "--max-tokens", "4"])
    importlib.import_module(name).main()
    assert capsys.readouterr().out.count("---") == 3


# 3. Golden tokens.


def test_golden_tokens_give_the_output_and_their_own_logprobs(llm):
    free = llm.generate("Once upon a time", greedy(logprobs=True), use_tqdm=False)[0]
    forced = llm.generate("Once upon a time", SamplingParams(temperature=1.0, max_tokens=8, golden_token_ids=free.token_ids, logprobs=True),
                          use_tqdm=False)[0]
    assert forced.token_ids == free.token_ids
    assert forced.logprobs == pytest.approx(free.logprobs, abs=1e-6)
    part = llm.generate("Once upon a time", greedy(golden_token_ids=[-1, -1, 300]), use_tqdm=False)[0]
    assert part.token_ids[:3] == [*free.token_ids[:2], 300]


def test_logprobs_agree_with_a_forced_run_of_every_choice(llm):
    one = llm.generate("Once upon a time", greedy(max_tokens=1, top_logprobs=5), use_tqdm=False)[0]
    (row,) = one.top_logprobs
    assert [pair[0] for pair in row][0] == one.token_ids[0] and row[0][1] == pytest.approx(one.logprobs[0])
    assert sorted((pair[1] for pair in row), reverse=True) == [pair[1] for pair in row]
    for token_id, logprob in row:
        forced = llm.generate("Once upon a time", greedy(max_tokens=1, golden_token_ids=[token_id], logprobs=True), use_tqdm=False)[0]
        assert forced.logprobs[0] == pytest.approx(logprob, abs=1e-6)


def test_prompt_logprobs_are_those_of_a_forced_answer(llm):
    ids = [0, *llm.get_tokenizer().encode("Once upon a time")]
    scored = llm.generate(prompt_token_ids=[ids], sampling_params=greedy(max_tokens=1, prompt_logprobs=True), use_tqdm=False)[0]
    forced = llm.generate(prompt_token_ids=[ids[:1]], sampling_params=greedy(max_tokens=len(ids) - 1, golden_token_ids=ids[1:], logprobs=True),
                          use_tqdm=False)[0]
    assert scored.prompt_logprobs == pytest.approx(forced.logprobs, abs=1e-5)


def test_n_gives_as_many_answers(llm):
    results = llm.generate(["Once upon a time", "The cat"], SamplingParams(temperature=1.0, n=4, max_tokens=12, seq_seed=5), use_tqdm=False)
    assert len(results) == 2
    for result in results:
        assert len(result.samples) == 4 and result.samples[0] is result and len(set(result.samples)) > 1
    alone = llm.generate("Once upon a time", SamplingParams(temperature=1.0, max_tokens=12, seq_seed=5), use_tqdm=False)[0]
    assert results[0] == alone
    streamed = {}
    for record in llm.stream("Once upon a time", SamplingParams(temperature=1.0, n=4, max_tokens=12, seq_seed=5)):
        streamed.setdefault(record.sample_index, []).append(record.token_id)
    assert [streamed[i] for i in range(4)] == [sample.token_ids for sample in results[0].samples]


def test_parameters_of_every_server_change_the_draw(llm):
    plain = llm.generate("Once upon a time", greedy(), use_tqdm=False)[0]
    first = plain.token_ids[0]
    banned = llm.generate("Once upon a time", greedy(logit_bias={first: -100}), use_tqdm=False)[0]
    assert first != banned.token_ids[0]
    only = llm.generate("Once upon a time", greedy(allowed_token_ids=[300, 301], ignore_eos=True), use_tqdm=False)[0]
    assert set(only.token_ids) <= {300, 301, 1}
    assert llm.generate("Once upon a time", SamplingParams(temperature=5.0, min_p=1.0, max_tokens=8), use_tqdm=False)[0] == plain


# 4. Length and order.


def test_generate_keeps_length_and_order_whatever_happens_to_one(llm):
    good = [0, *llm.get_tokenizer().encode("Once upon a time")]
    expected = llm.generate(prompt_token_ids=[good], sampling_params=greedy(max_tokens=60, ignore_eos=True), use_tqdm=False)[0]
    for position, bad in ((0, []), (3, [10**6]), (7, [5] * 600)):
        prompts = [good] * 8
        prompts[position] = bad
        results = llm.generate(prompt_token_ids=prompts, sampling_params=greedy(max_tokens=60, ignore_eos=True), use_tqdm=False)
        assert len(results) == 8
        for index, result in enumerate(results):
            assert (result == "" and result.error) if index == position else (result == expected and result.error is None)


def test_generate_keeps_length_and_order_when_one_is_aborted(llm):
    good = [0, *llm.get_tokenizer().encode("Once upon a time")]
    victim = llm.next_request_id() + 5
    stop = threading.Event()

    def keep_aborting():
        while not stop.is_set():
            llm.abort(victim)
            stop.wait(0.001)

    thread = threading.Thread(target=keep_aborting)
    thread.start()
    try:
        results = llm.generate(prompt_token_ids=[good] * 8, sampling_params=greedy(max_tokens=60, ignore_eos=True), use_tqdm=False)
    finally:
        stop.set()
        thread.join()
    assert [result.finish_reason for result in results] == ["length"] * 5 + ["abort"] + ["length"] * 2


# 6. Words.


def test_finish_reasons_are_those_of_the_reference():
    reasons = FinishReasons(max_model_len=1000, block_count=5)  # the pool holds 640 tokens

    def name(reason, code=None, text="", prompt_len=10, images=False, grammar=False):
        return reasons.name(reason, RequestError(code, text) if code else None, prompt_len, images, grammar)

    assert [name("stop"), name("length"), name("abort"), name("")] == ["stop", "length", "abort", ""]
    assert name("error", "invalid_argument", "the prompt has ..", prompt_len=1001) == "prompt_length_exceeded"
    assert name("error", "invalid_argument", "needs 6 cache blocks", prompt_len=641) == "prompt_length_exceeded"
    assert name("error", "unavailable", "the queue is full") == "insufficient_system_resource"
    assert name("error", "out_of_memory", "no room") == "insufficient_system_resource"
    assert name("error", "invalid_argument", "image 0: not an image", images=True) == "ve_error"
    assert name("error", "invalid_argument", "grammar: took longer than 5 s", grammar=True) == "xgrammar runtime errors or timeout"
    assert name("error", "internal", "something") == "error"


def test_end_of_sequence_is_stop(llm):
    eos = llm.get_tokenizer().eos_token_id
    result = llm.generate("Once", greedy(golden_token_ids=[300, eos], max_tokens=5), use_tqdm=False)[0]
    assert result.finish_reason == "stop" and result.token_ids == [300, eos]
    records = list(llm.stream("Once", greedy(golden_token_ids=[300, eos], max_tokens=5)))
    assert [record.finish_reason for record in records] == ["", "stop"]


def test_records_have_every_attribute_of_the_reference(llm):
    (record,) = llm.stream("Once", greedy(max_tokens=1))
    for name in ("request_id prompt_len token_id finish_reason finished max_num_batched_tokens token_logprobs nextn_logprobs "
                 "sum_smaller_probs top_logprobs top_token_ids num_output_tokens prompt_logprobs draft_tok accept_tok confidence_score "
                 "error cached_tokens queue_ms prefill_ms text_delta clone").split():
        assert hasattr(record, name), name
    assert record.nextn_logprobs == 1.0 and record.sum_smaller_probs == -1.0 and math.isfinite(record.token_logprobs)


def test_the_package_gives_its_names():
    for name in deepinfer.__all__:
        assert hasattr(deepinfer, name)
