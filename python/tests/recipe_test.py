"""deepinfer.recipe: requests and answers without a model."""

import json
import pathlib

import pytest

from deepinfer import recipe

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
MODEL = str(REPOSITORY / "models" / "v41-mini")
REQUEST = {"messages": [{"role": "user", "content": "q"}]}


def test_prompts_are_the_recorded_ones():
    fixture = json.loads((REPOSITORY / "tests" / "data" / "chat" / "encoding_v41.json").read_text())
    for case in fixture["cases"]:
        assert recipe.encode(case["request"], "chat", tokenizer=MODEL)["prompt"] == case["prompt"], case["id"]


def test_an_output_becomes_an_answer_by_text_and_by_ids(monkeypatch):
    monkeypatch.setenv("DEEPINFER_HF_MODEL_DIR", MODEL)
    answer = recipe.decode(REQUEST, text="I think</think>Hello", id="chatcmpl-1", created=3)
    assert answer["id"] == "chatcmpl-1" and answer["created"] == 3
    message = answer["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("I think", "Hello")
    ids = recipe.encode({"messages": [{"role": "assistant", "content": "Hello", "prefix": True}], "thinking": {"type": "disabled"}})
    tail = ids["token_ids"][3:]  # behind begin, assistant and the end of reasoning
    by_ids = recipe.decode({**REQUEST, "thinking": {"type": "disabled"}}, token_ids=tail)
    assert by_ids["choices"][0]["message"]["content"] == "Hello"


def test_a_stream_is_a_list_of_events():
    events = recipe.decode_stream(REQUEST, "messages", text="a</think>b\n\nc", tokenizer=MODEL)
    assert [name for name, _ in events][:3] == ["message_start", "content_block_start", "ping"]
    texts = [data["delta"]["text"] for _, data in events if data.get("delta", {}).get("type") == "text_delta"]
    assert "".join(texts) == "b\n\nc"
    assert recipe.decode_stream(REQUEST, text="a</think>b", tokenizer=MODEL)[-1] == (None, "[DONE]")


def test_an_answer_is_streamed_while_it_is_written():
    request = {"messages": [{"role": "assistant", "content": "Hello", "prefix": True}], "thinking": {"type": "disabled"}}
    ids = recipe.encode(request, tokenizer=MODEL)["token_ids"][3:]  # behind begin, assistant and the end of reasoning
    request = {**REQUEST, "thinking": {"type": "disabled"}}
    answer = recipe.Answer(request, "messages", id="m", tokenizer=MODEL)
    events = [event for token in ids for event in answer.push([token])]
    assert not answer.is_over and events[0][0] == "message_start"
    with pytest.raises(ValueError, match="finish"):
        answer.body()
    events += answer.finish()
    texts = [data["delta"]["text"] for _, data in events if data.get("delta", {}).get("type") == "text_delta"]
    assert answer.is_over and "".join(texts) == "Hello" and events[-1][0] == "message_stop"
    assert answer.body() == recipe.decode(request, "messages", token_ids=ids, id="m", tokenizer=MODEL)
    cut = recipe.Answer(request, created=3, tokenizer=MODEL)
    assert cut.push(ids) and cut.finish("length")[-1] == (None, "[DONE]")
    assert cut.body()["choices"][0]["finish_reason"] == "length" and cut.body()["created"] == 3
    with pytest.raises(ValueError, match="token_ids"):
        cut.push([-1])


def test_errors_name_the_field(monkeypatch):
    monkeypatch.delenv("DEEPINFER_HF_MODEL_DIR", raising=False)
    with pytest.raises(ValueError, match="tokenizer"):
        recipe.encode(REQUEST)
    with pytest.raises(ValueError, match="dialect"):
        recipe.encode(REQUEST, "completions", tokenizer=MODEL)
    with pytest.raises(ValueError, match=r"messages\[0\].role"):
        recipe.encode({"messages": [{"role": "x", "content": "q"}]}, tokenizer=MODEL)
    with pytest.raises(ValueError, match="token_ids"):
        recipe.decode(REQUEST, tokenizer=MODEL)
    with pytest.raises(FileNotFoundError):
        recipe.encode(REQUEST, tokenizer="nowhere")
