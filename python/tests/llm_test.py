"""The Python package, end to end on the embedded model."""

import pathlib
import threading
import time

import numpy
import pytest

import deepinfer
from deepinfer import LLM, RequestOutput, SamplingParams

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
MODEL = REPOSITORY / "models" / "v41-mini"
TINY = REPOSITORY / "tests" / "data" / "v41-tiny"


@pytest.fixture(scope="module")
def llm():
    with LLM(str(MODEL), max_model_len=512, max_num_seqs=4) as model:
        yield model


def greedy(**more):
    return SamplingParams(temperature=0.0, **{"max_tokens": 8, **more})


def test_results_have_the_length_and_order_of_the_input(llm):
    prompts = ["Once upon a time", "The cat", "One day", "Tom", "A bird"]
    together = llm.generate(prompts, greedy(), use_tqdm=False)
    alone = [llm.generate(prompt, greedy(), use_tqdm=False)[0] for prompt in prompts]
    assert together == alone
    assert all(isinstance(text, str) and text for text in together)


def test_a_prompt_that_fails_has_an_error_and_an_empty_text_and_the_others_run(llm):
    good = "Once upon a time"
    ids = llm.get_tokenizer().encode(good)
    prompts = [ids, [], [10**6], ids, [5] * 600, ids]
    results = llm.generate(prompt_token_ids=prompts, sampling_params=greedy(), use_tqdm=False)
    assert [result.error is None for result in results] == [True, False, False, True, False, True]
    assert [result for result in results if result.error] == ["", "", ""]
    assert "1000000" in results[2].error
    assert results[0] == results[3] == results[5] != ""
    assert [result.finish_reason for result in results if result.error] == ["error", "error", "prompt_length_exceeded"]
    assert results[1].error.code == "invalid_argument" and "no token ids" in results[1].error.message


def test_parameters_may_be_one_or_one_for_each(llm):
    params = [greedy(max_tokens=n) for n in (0, 1, 5)]
    results = llm.generate(["Once upon a time"] * 3, params, use_tqdm=False)
    assert [len(result.token_ids) for result in results] == [0, 1, 5]
    with pytest.raises(ValueError, match="2 values for 3 prompts"):
        llm.generate(["a"] * 3, params[:2], use_tqdm=False)


def test_the_same_seed_gives_the_same_answer(llm):
    params = SamplingParams(temperature=0.9, max_tokens=20, seq_seed=7)
    first, second = llm.generate(["Once upon a time"] * 2, params, use_tqdm=False)
    assert first == second
    free = llm.generate(["Once upon a time"] * 8, SamplingParams(temperature=1.5, max_tokens=20), use_tqdm=False)
    assert len(set(free)) > 1


def test_golden_token_ids_are_forced_and_have_logprobs(llm):
    golden = llm.get_tokenizer().encode(" the end of it")
    result = llm.generate("Once", greedy(max_tokens=len(golden), golden_token_ids=golden), use_tqdm=False)[0]
    assert result.token_ids == golden
    assert result == " the end of it"
    assert result.logprobs == []
    asked = llm.generate("Once", greedy(max_tokens=len(golden), golden_token_ids=golden, logprobs=True), use_tqdm=False)[0]
    assert len(asked.logprobs) == len(golden) and all(logprob < 0.0 for logprob in asked.logprobs)


def test_stop_strings_are_not_part_of_the_answer(llm):
    golden = llm.get_tokenizer().encode(" one two three four")
    params = greedy(max_tokens=len(golden), golden_token_ids=golden, stop="two th")
    result = llm.generate("Count:", params, use_tqdm=False)[0]
    assert result == " one "
    assert result.finish_reason == "stop"


def test_records_are_one_per_token_and_stay_good():
    with LLM(str(MODEL), max_model_len=256, decode_sequence=False) as llm:
        records = llm.generate("Once upon a time", greedy(), use_tqdm=False)[0]
        failed = llm.generate(prompt_token_ids=[[]], sampling_params=greedy(), use_tqdm=False)[0]
        ids = llm.get_tokenizer().encode("Once upon a time")
    assert [record.num_output_tokens for record in records] == list(range(1, 9))
    assert [record.finished for record in records] == [False] * 7 + [True]
    assert records[-1].finish_reason == "length"
    assert records[0].prompt_len == len(ids) + 1  # the begin of sentence
    assert "".join(record.text_delta for record in records)
    assert RequestOutput.clone(records[0]) == records[0]
    assert len(failed) == 1 and failed[0].finished and failed[0].error


def test_numpy_ids_and_the_tokenizer(llm):
    tokenizer = llm.get_tokenizer()
    ids = tokenizer.encode("Once upon a time")
    assert tokenizer.decode(ids) == "Once upon a time"
    assert tokenizer.vocab_size == 4224
    assert tokenizer.bos_token_id == 0 and tokenizer.eos_token_id == 1
    array = llm.generate(prompt_token_ids=[numpy.array(ids, dtype=numpy.int32)], sampling_params=greedy(), use_tqdm=False)
    assert array == llm.generate(prompt_token_ids=[ids], sampling_params=greedy(), use_tqdm=False)


def test_the_interpreter_runs_while_the_model_does(llm):
    ticks = []
    stop = threading.Event()

    def count():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    # A prefill of one step: no event, so no other chance for the thread than a released lock.
    begin = time.monotonic()
    llm.generate(prompt_token_ids=[[5 + i % 4000 for i in range(480)]], sampling_params=greedy(max_tokens=1), use_tqdm=False)
    end = time.monotonic()
    stop.set()
    thread.join()
    inside = [tick for tick in ticks if begin < tick < end]
    assert len(inside) >= (end - begin) / 0.05


def test_an_exception_in_the_bar_ends_the_call(llm, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(deepinfer.llm._ProgressBar, "count", fail)
    with pytest.raises(KeyboardInterrupt):
        llm.generate("Once upon a time", greedy(max_tokens=200), use_tqdm=False)
    monkeypatch.undo()
    assert llm.generate("Once upon a time", greedy(), use_tqdm=False)[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": -1}, "temperature: -1"),
        ({"temperature": float("nan")}, "temperature: nan"),
        ({"top_p": 0}, "top_p: 0"),
        ({"top_k": -2}, "top_k: -2"),
        ({"max_tokens": -1}, "max_tokens: -1"),
        ({"max_tokens": 1.5}, "max_tokens: 1.5"),
        ({"stop": [""]}, "stop"),
        ({"top_logprobs": 1001}, r"top_logprobs: 1001, expected an integer in \[0, 1000\]"),
        ({"min_p": 1.1}, r"min_p: 1.1, expected a number in \[0.0, 1.0\]"),
        ({"n": 0}, "n: 0"),
        ({"n": 129}, "n: 129"),
        ({"repetition_penalty": 0}, "repetition_penalty: 0"),
        ({"presence_penalty": 3}, "presence_penalty: 3"),
        ({"frequency_penalty": -3}, "frequency_penalty: -3"),
        ({"logit_bias": {5: 101}}, r"logit_bias\[5\]: 101"),
        ({"logit_bias": {-1: 1}}, "logit_bias: token id: -1"),
        ({"logit_bias": [1]}, "logit_bias: .*, expected a mapping"),
        ({"logprobs_mode": "cooked"}, "logprobs_mode: 'cooked', expected raw or processed"),
        ({"deadline_ms": 0}, "deadline_ms: 0"),
        ({"priority": 1.5}, "priority: 1.5"),
        ({"cache_salt": 5}, "cache_salt: 5"),
        ({"best_of": 2}, "best_of: 2 is refused: .* use n"),
        ({"lora_id": "a"}, "lora_id: 'a' is refused"),
    ],
)
def test_sampling_params_name_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        SamplingParams(**arguments)


def test_unknown_names_are_type_errors():
    with pytest.raises(TypeError, match="no argument 'tempratur'"):
        SamplingParams(tempratur=1)
    with pytest.raises(TypeError, match="no argument 'max_len'"):
        LLM(str(MODEL), max_len=5)


def test_images_reach_the_model():
    image = (TINY / "image.png").read_bytes()
    data = {"image_bytes": [image], "image_sizes": [(70, 84)]}
    with LLM(str(TINY)) as llm:
        good, bad = llm.generate(["The quick brown fox"] * 2, greedy(), use_tqdm=False,
                                 multi_modal_data=[data, {"image_bytes": [image[:100]]}])
    assert good.error is None and good.token_ids
    assert good.prompt_token_ids.count(8) == 2 * 3 + 2  # 2 rows of 2 with their newlines, and the markers
    assert bad == "" and bad.error.startswith("image 0: ")


def test_a_model_without_eyes_refuses_images(llm):
    image = (TINY / "image.png").read_bytes()
    result = llm.generate("What is this?", greedy(), use_tqdm=False, multi_modal_data={"image_bytes": [image]})[0]
    assert "no vision tower" in result.error


def test_models_that_cannot_be_loaded_say_why(tmp_path, monkeypatch):
    with pytest.raises((FileNotFoundError, RuntimeError), match="tokenizer.json|config.json|does not exist"):
        LLM(str(tmp_path))
    with pytest.raises(ValueError, match="expert_parallel_size: 2 is not supported"):
        LLM(str(MODEL), expert_parallel_size=2)
    with pytest.raises(ValueError, match="backend .cuda.: no cuda backend in this build"):
        LLM(str(MODEL), backend="cuda")
    with pytest.raises(MemoryError):
        LLM(str(MODEL), kv_memory=1)
    monkeypatch.setenv("DEEPINFER_ACCELERATOR", "ascend")
    with pytest.raises(ValueError, match="DEEPINFER_ACCELERATOR: .ascend. is not supported"):
        LLM(str(MODEL))


def test_a_closed_model_says_so():
    llm = LLM(str(MODEL), max_model_len=256)
    llm.close()
    llm.close()
    with pytest.raises(ValueError, match="closed"):
        llm.generate("a", greedy(), use_tqdm=False)
    with pytest.raises(ValueError, match="closed"):
        llm.get_tokenizer().encode("a")
