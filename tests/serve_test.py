"""The service as clients see it: the typed clients of OpenAI and Anthropic, and plain HTTP where they hide something."""

import asyncio
import base64
import json
import re
import socket
import time

import anthropic
import openai
import pytest

from server_process import ROOT, Server, request

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather for a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
QUESTION = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def server():
    with Server("--allow-faults") as running:
        yield running


def off(**more):
    return {"extra_body": {"thinking": {"type": "disabled"}, **more}}


def test_chat_answers_alike_whole_and_streamed(client):
    whole = client.chat.completions.create(model="v41-mini", messages=QUESTION, temperature=0, max_tokens=40, **off())
    assert whole.choices[0].finish_reason in ("stop", "length")
    assert whole.usage.prompt_tokens > 0
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    stream = client.chat.completions.create(
        model="v41-mini", messages=QUESTION, temperature=0, max_tokens=40, stream=True,
        stream_options={"include_usage": True}, **off()
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    reasons = [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]
    assert reasons == [whole.choices[0].finish_reason]
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert len({c.id for c in chunks}) == 1


def test_thinking_comes_as_reasoning(client):
    answer = client.chat.completions.create(model="", messages=QUESTION, temperature=0, max_tokens=200)
    message = answer.choices[0].message
    assert message.reasoning_content is not None
    assert "</think>" not in (message.content or "") + message.reasoning_content
    details = answer.usage.completion_tokens_details
    assert 0 < details.reasoning_tokens <= answer.usage.completion_tokens


def test_samples_with_a_seed_differ_and_come_again(client):
    def four():
        answer = client.chat.completions.create(
            model="v41-mini", messages=[{"role": "user", "content": "Tell me a story"}], n=4, seed=7, temperature=1.0,
            max_tokens=24, **off()
        )
        return [choice.message.content for choice in answer.choices]

    first = four()
    assert len(set(first)) == 4
    assert first == four()


def test_stop_string_is_never_sent(client):
    messages = [{"role": "user", "content": "Tell me a story"}]
    whole = client.chat.completions.create(model="v41-mini", messages=messages, temperature=0, max_tokens=40, **off())
    text = whole.choices[0].message.content
    stop = text[8:14]
    cut = text[: text.index(stop)]
    for is_stream in (False, True):
        answer = client.chat.completions.create(
            model="v41-mini", messages=messages, temperature=0, max_tokens=40, stop=[stop], stream=is_stream, **off()
        )
        if is_stream:
            chunks = [c for c in answer if c.choices]
            got, finish = "".join(c.choices[0].delta.content or "" for c in chunks), chunks[-1].choices[0].finish_reason
        else:
            got, finish = answer.choices[0].message.content, answer.choices[0].finish_reason
        assert (got, finish) == (cut, "stop")


def test_logprobs_belong_to_the_tokens_of_the_answer(client):
    answer = client.chat.completions.create(
        model="v41-mini", messages=QUESTION, temperature=0, max_tokens=8, logprobs=True, top_logprobs=3, **off()
    )
    entries = answer.choices[0].logprobs.content
    assert "".join(entry.token for entry in entries) == answer.choices[0].message.content
    for entry in entries:
        assert entry.logprob <= 0.0 and len(entry.top_logprobs) == 3
        assert entry.top_logprobs[0].logprob >= entry.logprob


def test_structured_output_fills_the_schema(client):
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 10}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    answer = client.chat.completions.create(
        model="v41-mini",
        messages=[{"role": "user", "content": "A person as JSON"}],
        temperature=0,
        max_tokens=200,
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": schema, "strict": True}},
        **off(),
    )
    value = json.loads(answer.choices[0].message.content)
    assert set(value) == {"name", "age"} and isinstance(value["age"], int)


def test_a_prefix_is_reused_and_reported(client):
    messages = [{"role": "user", "content": "word " * 300}]
    client.chat.completions.create(model="v41-mini", messages=messages, max_tokens=1, **off())
    again = client.chat.completions.create(model="v41-mini", messages=messages, max_tokens=1, **off())
    assert again.usage.prompt_tokens_details.cached_tokens >= 128
    assert again.usage.prompt_tokens_details.cached_tokens < again.usage.prompt_tokens


def test_completions_take_text_ids_and_lists(client):
    one = client.completions.create(model="v41-mini", prompt="Once upon", temperature=0, max_tokens=8)
    both = client.completions.create(model="v41-mini", prompt=["Once upon", "The end"], temperature=0, max_tokens=8)
    assert [choice.index for choice in both.choices] == [0, 1]
    assert both.choices[0].text == one.choices[0].text
    echoed = client.completions.create(model="v41-mini", prompt="Once upon", temperature=0, max_tokens=4, echo=True, logprobs=1)
    assert echoed.choices[0].text.startswith("Once upon")
    assert echoed.choices[0].logprobs.token_logprobs[0] is None


def test_responses_are_stored_and_continued(client):
    first = client.responses.create(model="v41-mini", input="Hello", max_output_tokens=20, reasoning={"effort": "none"})
    assert first.status in ("completed", "incomplete")
    assert client.responses.retrieve(first.id).id == first.id
    assert client.responses.input_items.list(first.id).data[0].role == "user"
    second = client.responses.create(
        model="v41-mini", input="And then?", previous_response_id=first.id, max_output_tokens=20, reasoning={"effort": "none"}
    )
    assert second.usage.input_tokens > first.usage.input_tokens
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    with pytest.raises(openai.BadRequestError) as raised:
        client.responses.create(model="v41-mini", input="x", previous_response_id=first.id)
    assert raised.value.code == "previous_response_not_found"


def test_responses_stream_counts_its_events(client):
    events = list(client.responses.create(model="v41-mini", input="Hello", max_output_tokens=20, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    assert events[-1].type in ("response.completed", "response.incomplete")


def test_background_responses_go_on_alone(client):
    started = client.responses.create(model="v41-mini", input="Hello", max_output_tokens=30, background=True)
    assert started.status in ("queued", "in_progress")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and client.responses.retrieve(started.id).status in ("queued", "in_progress"):
        time.sleep(0.05)
    assert client.responses.retrieve(started.id).status in ("completed", "incomplete")
    long = client.responses.create(
        model="v41-mini", input="Hello", max_output_tokens=1500, background=True, extra_body={"ignore_eos": True}
    )
    assert client.responses.cancel(long.id).status == "cancelled"


def test_messages_answer_and_stream(claude):
    thinking = {"type": "disabled"}
    asked = {"model": "v41-mini", "max_tokens": 30, "messages": QUESTION, "thinking": thinking}
    asked["extra_body"] = {"temperature": 0}
    whole = claude.messages.create(**asked)
    assert whole.content[0].type == "text" and whole.stop_reason in ("end_turn", "max_tokens")
    with claude.messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == whole.content[0].text
    assert final.usage.output_tokens == whole.usage.output_tokens
    counted = claude.messages.count_tokens(model="v41-mini", messages=QUESTION, thinking=thinking)
    assert counted.input_tokens == whole.usage.input_tokens + whole.usage.cache_read_input_tokens


def test_tools_go_round(client):
    """A forced call, its result, and the answer to it."""
    messages = [{"role": "user", "content": "Weather in Paris?"}]
    answer = client.chat.completions.create(
        model="v41-mini", messages=messages, tools=[TOOL], temperature=0, max_tokens=120, **off()
    )
    message = answer.choices[0].message
    assert "DSML" not in (message.content or "")
    if not message.tool_calls:
        pytest.skip("the model chose to answer in text")
    call = message.tool_calls[0]
    assert call.function.name == "get_weather"
    assert isinstance(json.loads(call.function.arguments), dict)
    messages += [message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    after = client.chat.completions.create(
        model="v41-mini", messages=messages, tools=[TOOL], temperature=0, max_tokens=40, **off()
    )
    assert after.choices[0].finish_reason in ("stop", "length", "tool_calls")


@pytest.mark.parametrize("thinking", ["enabled", "disabled"])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_required_call_is_made_also_behind_reasoning(client, thinking, choice):
    answer = client.chat.completions.create(
        model="v41-mini", messages=[{"role": "user", "content": "Weather in Paris?"}], tools=[TOOL], tool_choice=choice,
        temperature=0, max_tokens=400, extra_body={"thinking": {"type": thinking}},
    )
    message = answer.choices[0].message
    assert message.content == ""
    assert message.tool_calls and message.tool_calls[0].function.name == "get_weather"
    assert "DSML" not in (getattr(message, "reasoning_content", None) or "")


def test_the_asynchronous_client_runs_many_at_once(server):
    async def run():
        client = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        asked = [
            client.chat.completions.create(model="v41-mini", messages=QUESTION, temperature=0, max_tokens=16, **off())
            for _ in range(12)
        ]
        answers = await asyncio.gather(*asked)
        await client.close()
        return {answer.choices[0].message.content for answer in answers}

    assert len(asyncio.run(run())) == 1


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/tokenize"])
@pytest.mark.parametrize(
    "body", [b"[]", b"5", b'"x"', b"{:", b"", b'{"messages": "x", "prompt": 5, "input": 5}', '{"a":"你"}'.encode("gbk")]
)
def test_a_broken_body_is_the_clients_fault(server, path, body):
    status, headers, answer = request(server, "POST", path, body)
    assert status == 400
    assert headers["x-request-id"] == headers["request-id"]
    error = json.loads(answer)
    assert error["error"]["type"] == "invalid_request_error"
    assert (error.get("type") == "error") == (path == "/v1/messages")


@pytest.mark.parametrize("value,status", [(0, 400), (1, 200), (-1, 400), (None, 200), (2**31, 400), (1.5, 400), ("5", 400)])
def test_max_tokens(server, value, status):
    body = {"prompt": "a", "max_tokens": value, "temperature": 0}
    got, _, answer = request(server, "POST", "/v1/completions", body)
    assert got == status
    if value == 1:
        assert json.loads(answer)["usage"]["completion_tokens"] == 1


def test_a_prompt_that_does_not_fit_says_so(server):
    status, _, answer = request(server, "POST", "/v1/completions", {"prompt": "a", "max_tokens": 300000})
    assert status == 400
    assert json.loads(answer)["error"]["code"] == "context_length_exceeded"


def test_a_prompt_that_fills_the_context_gets_one_token_and_a_longer_one_an_error_with_both_numbers():
    with Server("--max-model-len", "64") as small:
        for length, limit in ((63, {}), (64, {}), (64, {"max_tokens": 1})):
            body = {"prompt": [300] * length, "ignore_eos": True, **limit}
            status, _, answer = request(small, "POST", "/v1/completions", body)
            answer = json.loads(answer)
            assert status == 200, answer
            assert (answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"]) == (1, "length")
        for length, limit in ((65, {}), (64, {"max_tokens": 2})):
            status, _, answer = request(small, "POST", "/v1/completions", {"prompt": [300] * length, **limit})
            error = json.loads(answer)["error"]
            assert (status, error["code"]) == (400, "context_length_exceeded")
            assert f"holds 64 tokens, but the prompt has {length}" in error["message"]


def test_nothing_is_drawn_for_a_choice_behind_its_stop_string_while_others_run_on(server):
    def drawn():
        return json.loads(request(server, "GET", "/debug/state")[2])["engine"]["output_tokens"]

    body = {"prompt": "Once", "n": 2, "seed": 3, "temperature": 1, "max_tokens": 600, "ignore_eos": True}
    first, second = json.loads(request(server, "POST", "/v1/completions", body)[2])["choices"]
    stop = next(first["text"][i : i + 8] for i in range(20, 200) if first["text"][i : i + 8] not in second["text"])
    before = drawn()
    answer = json.loads(request(server, "POST", "/v1/completions", {**body, "stop": stop})[2])
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["stop", "length"]
    assert answer["choices"][1]["text"] == second["text"]
    # A few steps run before the engine hears of the end.
    assert 0 <= drawn() - before - answer["usage"]["completion_tokens"] < 100


def test_errors_have_their_status(server):
    assert request(server, "GET", "/nothing")[0] == 404
    status, headers, _ = request(server, "GET", "/v1/chat/completions")
    assert (status, headers["allow"]) == (405, "POST")
    assert request(server, "POST", "/tokenize", b"{}", {"Content-Type": "text/plain"})[0] == 415
    status, _, answer = request(server, "POST", "/v1/chat/completions", {"model": "other", "messages": QUESTION})
    assert (status, json.loads(answer)["error"]["code"]) == (404, "model_not_found")


def test_an_engine_error_is_a_500_or_an_event(server):
    body = {"messages": QUESTION, "max_tokens": 20, "thinking": {"type": "disabled"}, "fault": {"engine_error_at": 0}}
    assert request(server, "POST", "/v1/chat/completions", body)[0] == 500
    body = {**body, "fault": {"engine_error_at": 5}, "stream": True, "ignore_eos": True}
    status, _, answer = request(server, "POST", "/v1/chat/completions", body)
    events = re.findall(rb"data: (.*)\n\n", answer)
    assert status == 200 and b"[DONE]" not in events
    assert json.loads(events[-1])["error"]["type"] == "server_error"


def test_control_tokens_of_users_stay_text(server):
    plain = "<｜User｜></think>｜DSML｜"
    _, _, answer = request(server, "POST", "/tokenize", {"messages": [{"role": "user", "content": plain}]})
    _, _, other = request(server, "POST", "/tokenize", {"messages": [{"role": "user", "content": "a"}]})
    control = {token for token in json.loads(other)["tokens"]}
    extra = [token for token in json.loads(answer)["tokens"] if token not in control]
    _, _, text = request(server, "POST", "/detokenize", {"tokens": extra, "skip_special_tokens": True})
    assert json.loads(text)["text"] == plain


def ask_about_image(server, url):
    parts = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": url}}]
    body = {"messages": [{"role": "user", "content": parts}], "max_tokens": 4, "thinking": {"type": "disabled"}}
    status, _, answer = request(server, "POST", "/v1/chat/completions", body)
    return status, json.loads(answer)


def test_images_are_seen_where_there_is_a_vision_tower(server):
    image = (ROOT / "tests" / "data" / "v41-tiny" / "image.png").read_bytes()
    url = "data:image/png;base64," + base64.b64encode(image).decode()
    status, answer = ask_about_image(server, url)
    assert (status, answer["error"]["param"]) == (400, "messages[0].content[1]")  # v41-mini has none
    with Server("--model", str(ROOT / "tests" / "data" / "v41-tiny")) as seeing:
        status, answer = ask_about_image(seeing, url)
        assert status == 200 and answer["usage"]["prompt_tokens"] > 10
        for wrong in ("http://169.254.169.254/x", "file:///etc/passwd", "data:image/png;base64,AAAA"):
            status, answer = ask_about_image(seeing, wrong)
            assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
        assert ask_about_image(seeing, url)[0] == 200


def test_tokens_and_texts(server):
    _, _, answer = request(server, "POST", "/tokenize", {"prompt": "Hello world", "add_special_tokens": False})
    tokens = json.loads(answer)["tokens"]
    assert json.loads(answer)["count"] == len(tokens)
    _, _, text = request(server, "POST", "/detokenize", {"tokens": tokens})
    assert json.loads(text)["text"] == "Hello world"
    assert request(server, "POST", "/detokenize", {"tokens": [-1]})[0] == 400


def state(server):
    return json.loads(request(server, "GET", "/debug/state")[2])


def test_b32_clients_that_leave_free_what_they_had(server):
    """Streams and whole answers, left at once or behind the first bytes."""
    deadline = time.monotonic() + 60
    while state(server)["engine"]["running"] and time.monotonic() < deadline:
        time.sleep(0.05)
    before = state(server)["engine"]
    for i in range(200):
        is_stream = i % 4 != 3
        body = json.dumps({"messages": QUESTION, "max_tokens": 1000, "stream": is_stream, "ignore_eos": True}).encode()
        raw = socket.create_connection(("127.0.0.1", server.port))
        raw.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        if i % 4 == 1:
            raw.recv(64)
        raw.close()
    while time.monotonic() < deadline:
        after = state(server)
        if not after["requests"] and after["engine"]["running"] == 0 and after["engine"]["waiting"] == 0:
            break
        time.sleep(0.05)
    after = state(server)["engine"]
    assert (after["running"], after["waiting"]) == (0, 0)
    assert after["blocks_used"] - after["blocks_cached"] == before["blocks_used"] - before["blocks_cached"]


def test_health_metrics_and_models(server, client, claude):
    assert request(server, "GET", "/health")[0] == 200
    assert json.loads(request(server, "GET", "/version")[2])["name"] == "deepinfer"
    client.chat.completions.create(model="v41-mini", messages=QUESTION, max_tokens=1)
    text = request(server, "GET", "/metrics")[2].decode()
    assert 'deepinfer_requests_total{endpoint="/v1/chat/completions",finish="length"}' in text
    series = text.count("\n")
    for i in range(50):
        request(server, "POST", f"/path{i}", {"model": f"m{i}", "user": f"u{i}"})
    assert request(server, "GET", "/metrics")[2].decode().count("\n") <= series + 12
    assert client.models.list().data[0].id == "v41-mini"
    assert claude.models.list().data[0].id == "v41-mini"


def test_an_abort_by_name_ends_the_request(server):
    body = json.dumps({"messages": QUESTION, "max_tokens": 2000, "stream": True, "ignore_eos": True}).encode()
    raw = socket.create_connection(("127.0.0.1", server.port))
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\nContent-Length: %d\r\n\r\n"
    raw.sendall(head % len(body) + body)
    assert raw.recv(64)
    assert request(server, "POST", "/abort_request", {"rid": "mine"})[0] == 200
    assert request(server, "POST", "/abort_request", {"rid": "mine"})[0] == 404
    raw.close()


def test_keys_guard_every_route(tmp_path):
    keys = tmp_path / "keys.jsonl"
    keys.write_text('{"key": "user-key-1", "name": "ann"}\n{"key": "boss-key-1", "name": "boss", "admin": true}\n')
    with Server("--api-key-file", str(keys)) as guarded:
        assert request(guarded, "GET", "/health")[0] == 200
        for path in ("/v1/models", "/metrics", "/nothing"):
            assert request(guarded, "GET", path)[0] == 401
        user = {"Authorization": "Bearer user-key-1"}
        assert request(guarded, "GET", "/v1/models", headers=user)[0] == 200
        assert request(guarded, "GET", "/debug/state", headers=user)[0] == 403
        assert request(guarded, "GET", "/debug/state", headers={"x-api-key": "boss-key-1"})[0] == 200
        with pytest.raises(anthropic.AuthenticationError):
            anthropic.Anthropic(base_url=guarded.url, api_key="wrong-key", max_retries=0).models.list()


def test_shutting_down_lets_running_answers_end():
    with Server() as ending:
        body = json.dumps({"messages": QUESTION, "max_tokens": 200, "stream": True, "ignore_eos": True}).encode()
        raw = socket.create_connection(("127.0.0.1", ending.port))
        raw.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        received = raw.recv(64)
        ending.process.terminate()
        deadline = time.monotonic() + 30
        statuses = set()
        while time.monotonic() < deadline and ending.process.poll() is None and 503 not in statuses:
            try:
                status, headers, _ = request(ending, "POST", "/v1/chat/completions", {"messages": QUESTION})
            except OSError:
                break
            statuses.add(status)
            if status == 503:
                assert int(headers["retry-after"]) > 0
        while piece := raw.recv(65536):
            received += piece
        assert b"data: [DONE]" in received
        assert ending.process.wait(timeout=60) == 0
