"""The clients of OpenAI and Anthropic against the service: typed events, tools over three turns, errors, cancel."""

import asyncio
import functools
import json
import time

import anthropic
import openai
import pydantic
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from server_process import Server, request

MODEL = "v41-mini"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}}, "required": ["city"]}
QUESTION = [{"role": "user", "content": "Weather in Paris?"}]
OFF = {"thinking": {"type": "disabled"}}
TURNS = 3


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


# --- every body and event is one of the typed models -----------------------------------------------------------------

NAMED = {"name": "get_weather", "description": "Weather of a city."}
CHAT_TOOL = {"type": "function", "function": {**NAMED, "parameters": PARAMETERS}}
RESPONSES_TOOL = {"type": "function", **NAMED, "parameters": PARAMETERS}
MESSAGES_TOOL = {**NAMED, "input_schema": PARAMETERS}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
FORMAT = {"name": "n", "schema": SCHEMA}

REQUESTS = [
    ("/v1/chat/completions", {"messages": QUESTION}),
    ("/v1/chat/completions", {"messages": QUESTION, **OFF, "logprobs": True, "top_logprobs": 3, "n": 2, "seed": 1}),
    (
        "/v1/chat/completions",
        {"messages": QUESTION, "tools": [CHAT_TOOL], "tool_choice": "required", "stream_options": {"include_usage": True}},
    ),
    ("/v1/chat/completions", {"messages": QUESTION, **OFF, "response_format": {"type": "json_schema", "json_schema": FORMAT}}),
    ("/v1/completions", {"prompt": "Once", "logprobs": 2, "n": 2, "seed": 1}),
    ("/v1/responses", {"input": "Hello"}),
    ("/v1/responses", {"input": "Weather in Paris?", "tools": [RESPONSES_TOOL], "tool_choice": "required"}),
    (
        "/v1/responses",
        {"input": "Hello", "reasoning": {"effort": "none"}, "include": ["message.output_text.logprobs"], "top_logprobs": 2},
    ),
    ("/v1/responses", {"input": "x", "text": {"format": {"type": "json_schema", **FORMAT}}, "max_output_tokens": 300}),
    ("/v1/messages", {"messages": QUESTION, "thinking": {"type": "enabled", "budget_tokens": 1024}}),
    ("/v1/messages", {"messages": QUESTION, "thinking": {"type": "disabled"}, "stop_sequences": ["zz"]}),
    ("/v1/messages", {"messages": QUESTION, "tools": [MESSAGES_TOOL], "tool_choice": {"type": "any"}}),
]
BODIES = {
    "/v1/chat/completions": ChatCompletion,
    "/v1/completions": Completion,
    "/v1/responses": Response,
    "/v1/messages": Message,
}
EVENTS = {
    "/v1/chat/completions": ChatCompletionChunk,
    "/v1/completions": Completion,
    "/v1/responses": ResponseStreamEvent,
    "/v1/messages": RawMessageStreamEvent,
}


@functools.cache
def adapter(path, is_stream):
    return pydantic.TypeAdapter((EVENTS if is_stream else BODIES)[path])


def validate(path, value, is_stream):
    """As the clients' own types say, without their leniency about types."""
    adapter(path, is_stream).validate_json(json.dumps(value), strict=True)


def events_of(text):
    """The data of an event stream; `[DONE]` and pings are left out."""
    found = []
    for event in text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in event.split("\n") if not line.startswith(":"))
        if lines and lines["data"] != "[DONE]" and lines.get("event") != "ping":
            found.append(json.loads(lines["data"]))
    return found


@pytest.mark.parametrize("path,asked", REQUESTS)
def test_bodies_and_events_are_of_the_clients_types(server, path, asked):
    body = {"model": MODEL, "max_tokens" if path != "/v1/responses" else "max_output_tokens": 200, "temperature": 0, **asked}
    status, _, whole = request(server, "POST", path, {key: value for key, value in body.items() if key != "stream_options"})
    assert status == 200, whole
    validate(path, json.loads(whole), is_stream=False)
    status, headers, text = request(server, "POST", path, {**body, "stream": True})
    assert status == 200 and headers["content-type"].startswith("text/event-stream"), text
    events = events_of(text.decode())
    assert len(events) > 2
    for event in events:
        for choice in event["choices"] if path == "/v1/completions" else []:
            # OpenAI sends null until the end as well; its type of whole completions, the only one there is, does not know that.
            choice["finish_reason"] = choice["finish_reason"] or "stop"
        validate(path, event, is_stream=True)


# --- tools: three turns, each a call, its result, and on ---------------------------------------------------------------


def test_chat_tools_over_three_turns(client):
    messages = list(QUESTION)
    for turn in range(TURNS):
        with client.chat.completions.stream(
            model=MODEL, messages=messages, tools=[CHAT_TOOL], tool_choice="required", temperature=0, max_tokens=120,
            parallel_tool_calls=False, extra_body=OFF,
        ) as stream:
            answer = stream.get_final_completion().choices[0]
        assert answer.finish_reason == "tool_calls" and not answer.message.content
        (call,) = answer.message.tool_calls
        assert json.loads(call.function.arguments)["city"] in ("Paris", "Rome")
        function = {"name": call.function.name, "arguments": call.function.arguments}
        calls = [{"id": call.id, "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": call.id, "content": f"sunny, turn {turn}"})
    last = client.chat.completions.create(
        model=MODEL, messages=messages, tools=[CHAT_TOOL], tool_choice="none", temperature=0, max_tokens=20, extra_body=OFF
    )
    assert last.choices[0].message.tool_calls is None and "DSML" not in last.choices[0].message.content


def test_responses_tools_over_three_turns(client):
    asked, previous = "Weather in Paris?", None
    for turn in range(TURNS):
        answer = client.responses.create(
            model=MODEL, input=asked, previous_response_id=previous, tools=[RESPONSES_TOOL], tool_choice="required",
            parallel_tool_calls=False, temperature=0, max_output_tokens=300, reasoning={"effort": "none"},
        )
        (call,) = [item for item in answer.output if item.type == "function_call"]
        assert json.loads(call.arguments)["city"] in ("Paris", "Rome") and answer.status == "completed"
        asked = [{"type": "function_call_output", "call_id": call.call_id, "output": f"sunny, turn {turn}"}]
        previous = answer.id
    last = client.responses.create(
        model=MODEL, input=asked, previous_response_id=previous, temperature=0, max_output_tokens=20,
        reasoning={"effort": "none"},
    )
    assert last.status in ("completed", "incomplete") and last.previous_response_id == previous


def test_messages_tools_over_three_turns(claude):
    messages = list(QUESTION)
    for turn in range(TURNS):
        with claude.messages.stream(
            model=MODEL, messages=messages, tools=[MESSAGES_TOOL], max_tokens=120,
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
             thinking={"type": "disabled"}, extra_body={"temperature": 0},
        ) as stream:
            answer = stream.get_final_message()
        assert answer.stop_reason == "tool_use"
        (use,) = [block for block in answer.content if block.type == "tool_use"]
        assert use.input["city"] in ("Paris", "Rome")
        called = {"type": "tool_use", "id": use.id, "name": use.name, "input": use.input}
        result = {"type": "tool_result", "tool_use_id": use.id, "content": f"sunny, turn {turn}"}
        messages += [{"role": "assistant", "content": [called]}, {"role": "user", "content": [result]}]
    last = claude.messages.create(model=MODEL, messages=messages, max_tokens=20, thinking={"type": "disabled"})
    assert "DSML" not in "".join(block.text for block in last.content if block.type == "text")


# --- asynchronous clients -------------------------------------------------------------------------------------------------


def test_asynchronous_clients_answer_as_the_others_do(server, client, claude):
    async def run():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as fast:
            stream = await fast.chat.completions.create(
                model=MODEL, messages=QUESTION, temperature=0, max_tokens=30, stream=True, extra_body=OFF
            )
            chat = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
            response = await fast.responses.create(
                model=MODEL, input="Hello", temperature=0, max_output_tokens=30, reasoning={"effort": "none"}
            )
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key="none", max_retries=0) as calm:
            async with calm.messages.stream(
                model=MODEL, messages=QUESTION, max_tokens=30, thinking={"type": "disabled"}, extra_body={"temperature": 0}
            ) as stream:
                message = "".join([text async for text in stream.text_stream])
        return chat, response.output_text, message

    chat, response, message = asyncio.run(run())
    whole = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_tokens=30, extra_body=OFF)
    assert chat == whole.choices[0].message.content
    assert response == client.responses.create(
        model=MODEL, input="Hello", temperature=0, max_output_tokens=30, reasoning={"effort": "none"}
    ).output_text
    told = claude.messages.create(
        model=MODEL, messages=QUESTION, max_tokens=30, thinking={"type": "disabled"}, extra_body={"temperature": 0}
    )
    assert message == told.content[0].text


# --- errors and cancel ----------------------------------------------------------------------------------------------------


def test_errors_are_of_the_clients_types(client, claude, tmp_path):
    with pytest.raises(openai.BadRequestError) as broken:
        client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=9)
    assert broken.value.param == "temperature" and broken.value.type == "invalid_request_error"
    with pytest.raises(openai.NotFoundError) as unknown:
        client.responses.retrieve("resp_nothing")
    assert unknown.value.type == "invalid_request_error"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="another", messages=QUESTION)
    with pytest.raises(anthropic.BadRequestError) as refused:
        claude.messages.create(model=MODEL, messages=[], max_tokens=5)
    assert refused.value.body["type"] == "error" and refused.value.body["error"]["type"] == "invalid_request_error"
    keys = tmp_path / "keys"
    keys.write_text('{"name": "one", "key": "right-key-of-some-length", "requests_per_minute": 1}\n')
    with Server("--api-key-file", str(keys)) as guarded:
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=guarded.url + "/v1", api_key="wrong", max_retries=0).models.list()
        with pytest.raises(anthropic.AuthenticationError):
            anthropic.Anthropic(base_url=guarded.url, api_key="wrong", max_retries=0).models.list()
        known = openai.OpenAI(base_url=guarded.url + "/v1", api_key="right-key-of-some-length", max_retries=0)
        asked = {"model": MODEL, "messages": QUESTION, "max_tokens": 1}
        known.chat.completions.create(**asked)
        with pytest.raises(openai.RateLimitError) as limited:
            known.chat.completions.create(**asked)
        assert int(limited.value.response.headers["retry-after"]) >= 1
        calm = anthropic.Anthropic(base_url=guarded.url, api_key="right-key-of-some-length", max_retries=0)
        with pytest.raises(anthropic.RateLimitError):
            calm.messages.create(model=MODEL, messages=QUESTION, max_tokens=1)


def running(server):
    return json.loads(request(server, "GET", "/debug/state")[2])["engine"]["running"]


@pytest.mark.parametrize("dialect", ["chat", "messages"])
def test_a_stream_that_its_client_closes_is_cancelled(server, client, claude, dialect):
    if dialect == "chat":
        stream = client.chat.completions.create(
            model=MODEL, messages=QUESTION, max_tokens=900, stream=True, extra_body={**OFF, "ignore_eos": True}
        )
    else:
        stream = claude.messages.create(
            model=MODEL, messages=QUESTION, max_tokens=900, stream=True, extra_body={**OFF, "ignore_eos": True}
        )
    for _, _ in zip(range(3), stream, strict=False):
        pass
    stream.close()
    deadline = time.monotonic() + 30
    while running(server) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert running(server) == 0


def test_a_client_that_times_out_is_cancelled(server):
    impatient = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=0.2)
    with pytest.raises(openai.APITimeoutError):
        impatient.chat.completions.create(
            model=MODEL, messages=QUESTION, max_tokens=900, extra_body={**OFF, "ignore_eos": True}
        )
    deadline = time.monotonic() + 30
    while running(server) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert running(server) == 0
