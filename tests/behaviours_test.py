"""Behaviours that must hold (streams, calls, caches, images), each through HTTP. A test is named by its row of the
list; outputs are forced token by token, so that they are what the row speaks of."""

import base64
import json
import random
import re
import socket
import struct
import time
import zlib

import pytest

from server_process import ROOT, Server, request

END = "<｜end▁of▁sentence｜>"
MARKER = "｜DSML｜"
OFF = {"thinking": {"type": "disabled"}}


@pytest.fixture(scope="module")
def server():
    with Server("--allow-faults", "--sse-keepalive", "1") as running:
        yield running


@pytest.fixture(scope="module")
def seeing():
    with Server("--model", str(ROOT / "tests" / "data" / "v41-tiny"), "--allow-image-urls", "--body-max", "256MiB") as running:
        yield running


def post(server, path, body):
    status, _, answer = request(server, "POST", path, body)
    return status, json.loads(answer.decode())


def byte_tokens():
    """Ids of the tokens that are one byte each, by byte."""
    vocabulary = json.loads((ROOT / "models" / "v41-mini" / "tokenizer.json").read_text())["model"]["vocab"]
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {byte: chr(byte) for byte in plain}
    letters.update({byte: chr(0x100 + i) for i, byte in enumerate(b for b in range(256) if b not in letters)})
    return {byte: vocabulary[letters[byte]] for byte in range(256)}


BYTES = byte_tokens()


def spelled(text):
    """Tokens of one byte each."""
    return [BYTES[byte] for byte in text.encode()]


def token_of(server, text):
    (token,) = post(server, "/tokenize", {"prompt": text, "add_special_tokens": False})[1]["tokens"]
    return token


# How each dialect asks for an answer of forced tokens, and where its text stands.
def chat_body(ids, **more):
    return "/v1/chat/completions", {
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": 2000,
        "golden_token_ids": ids,
        **OFF,
        **more,
    }


def body_of(dialect, ids, **more):
    if dialect == "chat":
        return chat_body(ids, **more)
    if dialect == "completions":
        return "/v1/completions", {"prompt": "x", "max_tokens": 2000, "golden_token_ids": ids, **more}
    if dialect == "responses":
        tokens = more.pop("max_tokens", 2000)
        return "/v1/responses", {
            "input": "x",
            "max_output_tokens": tokens,
            "reasoning": {"effort": "none"},
            "golden_token_ids": ids,
            **more,
        }
    return "/v1/messages", {
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": 2000,
        "golden_token_ids": ids,
        **OFF,
        **more,
    }


def text_of(dialect, body):
    if dialect == "chat":
        return body["choices"][0]["message"]["content"]
    if dialect == "completions":
        return body["choices"][0]["text"]
    if dialect == "responses":
        return "".join(part["text"] for item in body["output"] if item["type"] == "message" for part in item["content"])
    return "".join(block["text"] for block in body["content"] if block["type"] == "text")


def piece_of(dialect, event):
    if dialect == "chat":
        return "".join(choice["delta"].get("content") or "" for choice in event["choices"])
    if dialect == "completions":
        return "".join(choice["text"] for choice in event["choices"])
    if dialect == "responses":
        return event["delta"] if event["type"] == "response.output_text.delta" else ""
    return event["delta"].get("text", "") if event["type"] == "content_block_delta" else ""


def events_of(answer):
    """The events of a stream, whose framing is checked byte by byte."""
    assert answer.endswith(b"\n\n")
    events = []
    for block in answer[:-2].split(b"\n\n"):
        if block.startswith(b":"):
            assert b"\n" not in block
            continue
        match = re.fullmatch(rb"(?:event: [a-z_.]+\n)?data: ([^\n]*)", block)
        assert match, block[:200]
        if match.group(1) != b"[DONE]":
            events.append(json.loads(match.group(1).decode()))
    return events


def streamed(server, path, body):
    status, headers, answer = request(server, "POST", path, {**body, "stream": True})
    assert status == 200 and headers["content-type"].startswith("text/event-stream"), answer
    return events_of(answer)


DIALECTS = ["chat", "completions", "responses", "messages"]


# --- streams and text ---


@pytest.mark.parametrize("dialect", ["chat", "completions", "messages"])
@pytest.mark.parametrize("ends", ["by itself", "by length"])
def test_b02_a_stop_string_that_never_completes_loses_nothing(server, dialect, ends):
    text = "aaaa aaab aaaac aaaaaaab aaaaa"
    ids = spelled(text) + [token_of(server, END)]
    more = {"stop_sequences" if dialect == "messages" else "stop": ["aaaaX", "aab aaaaX"]}
    if ends == "by length":
        more["max_tokens"] = len(text)
    path, body = body_of(dialect, ids, **more)
    status, whole = post(server, path, body)
    assert (status, text_of(dialect, whole)) == (200, text)
    assert "".join(piece_of(dialect, event) for event in streamed(server, path, body)) == text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_b04_bytes_of_a_character_come_as_one_character(server, dialect):
    text = "é世界😀 a👩‍👩‍👧‍👦!"
    path, body = body_of(dialect, spelled(text) + [token_of(server, END)])
    assert text_of(dialect, post(server, path, body)[1]) == text
    pieces = [piece_of(dialect, event) for event in streamed(server, path, body)]
    assert "".join(pieces) == text
    assert not any("�" in piece for piece in pieces)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_b05_an_end_inside_a_character_is_one_replacement_or_nothing(server, dialect, count):
    path, body = body_of(dialect, spelled("ok😀"), max_tokens=2 + count)
    status, whole = post(server, path, body)
    assert (status, text_of(dialect, whole)) in [(200, "ok�"), (200, "ok")]
    pieces = "".join(piece_of(dialect, event) for event in streamed(server, path, body))
    assert pieces == text_of(dialect, whole)
    # An engine that fails there, and errors that quote long texts of such characters.
    failing = {**body, "fault": {"engine_error_at": 2 + count}, "max_tokens": 100, "max_output_tokens": 100}
    assert "error" in json.dumps(streamed(server, path, failing)[-1])
    for cut in range(4):
        status, answer = post(server, path, {**body, "model": "a" * cut + "😀" * 200})
        assert status == 404 and "😀" in answer["error"]["message"]
    assert request(server, "GET", "/health")[0] == 200


def test_b07_a_long_line_stays_one_line(server):
    """No answer of this model is 4 MiB long; a field that events repeat can be."""
    long = "x\n" * (2 << 20)
    path, body = body_of("responses", spelled("ok") + [token_of(server, END)], user=long, store=False)
    events = streamed(server, path, body)
    assert events[0]["response"]["user"] == long
    assert events[-1]["response"]["user"] == long
    prompt = post(server, "/apply-template", {"messages": [{"role": "user", "content": long}]})[1]["prompt"]
    assert long in prompt


@pytest.mark.parametrize("dialect", DIALECTS)
def test_b07_an_error_behind_a_sign_of_life_is_an_event(server, dialect):
    path, body = body_of(dialect, spelled("abc"), fault={"slow_prefill_ms": 3500, "engine_error_at": 0}, stream=True)
    answer = raw_answer(server, path, body)
    assert answer.count(b"HTTP/1.1") == 1 and answer.startswith(b"HTTP/1.1 200 ")
    assert (b": keep-alive\n\n" in answer) == (dialect != "messages")
    assert (b"event: ping\n" in answer) == (dialect == "messages")
    assert b"[DONE]" not in answer and b"response.completed" not in answer and b"message_stop" not in answer
    assert re.search(rb'"type": "(error|response.failed|server_error)"', answer[answer.rindex(b"data: ") :])


def raw_answer(server, path, body, times=None):
    """All bytes that come until the server closes; `times` gets when each piece came."""
    data = json.dumps(body).encode()
    raw = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    raw.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    received = b""
    while piece := raw.recv(65536):
        received += piece
        if times is not None:
            times.append(time.monotonic())
    raw.close()
    return received


@pytest.mark.parametrize("dialect", DIALECTS)
def test_b08_a_long_prefill_gives_signs_of_life(server, dialect):
    """The pause is 5 s and a sign is due each second: the same proportions as 30 s and 5 s."""
    path, body = body_of(dialect, spelled("abc") + [token_of(server, END)], fault={"slow_prefill_ms": 5000}, stream=True)
    times = [time.monotonic()]
    answer = raw_answer(server, path, body, times)
    assert answer.count(b": keep-alive\n\n") + answer.count(b"event: ping\n") >= 3
    gaps = [after - before for before, after in zip(times, times[1:])]
    assert max(gaps) < 3


# --- calls ---


def tool(name, properties, **more):
    return {"name": name, "schema": {"type": "object", "properties": properties, **more}}


def with_tools(dialect, tools):
    if dialect == "chat":
        return {"tools": [{"type": "function", "function": {"name": t["name"], "parameters": t["schema"]}} for t in tools]}
    if dialect == "responses":
        return {"tools": [{"type": "function", "name": t["name"], "parameters": t["schema"], "strict": False} for t in tools]}
    return {"tools": [{"name": t["name"], "input_schema": t["schema"]} for t in tools]}


def call_ids(server, name, parameters):
    """A call of one byte a token; only the real markers are tokens of their own. `parameters`: (key, is a string, value)."""
    lines = "".join(
        f'<\0 parameter name="{k}" string="{"true" if is_text else "false"}">{v}</\0 parameter>\n'
        for k, is_text, v in parameters
    )
    text = f'Let me see.\n\n<\0 calls>\n<\0 invoke name="{name}">\n{lines}</\0 invoke>\n</\0 calls>'
    marker = token_of(server, MARKER)
    ids = []
    for i, part in enumerate(text.split("\0")):
        ids += [marker, *spelled(part)] if i else spelled(part)
    return ids + [token_of(server, END)]


def arguments_of(dialect, body):
    if dialect == "chat":
        (call,) = body["choices"][0]["message"]["tool_calls"]
        return call["function"]["arguments"]
    if dialect == "responses":
        (call,) = [item for item in body["output"] if item["type"] == "function_call"]
        return call["arguments"]
    (call,) = [block for block in body["content"] if block["type"] == "tool_use"]
    return json.dumps(call["input"])


def argument_piece(dialect, event):
    if dialect == "chat":
        calls = [call for choice in event["choices"] for call in choice["delta"].get("tool_calls") or []]
        return "".join(call["function"].get("arguments", "") for call in calls)
    if dialect == "responses":
        return event["delta"] if event["type"] == "response.function_call_arguments.delta" else ""
    return event["delta"].get("partial_json", "") if event["type"] == "content_block_delta" else ""


CALLING = ["chat", "responses", "messages"]


@pytest.mark.parametrize("dialect", CALLING)
@pytest.mark.parametrize(
    "value", ["ls 2>&1", "a </ b", "<｜DS", "</｜DSM", '{"say": "\\"hi\\""}', f"<{MARKER} invoke name=", "x</think>y"]
)
def test_b25_values_that_look_like_markup_arrive_whole(server, dialect, value):
    ids = call_ids(server, "run", [("command", True, value)])
    path, body = body_of(dialect, ids, **with_tools(dialect, [tool("run", {"command": {"type": "string"}})]))
    status, whole = post(server, path, body)
    assert status == 200
    assert json.loads(arguments_of(dialect, whole)) == {"command": value}
    assert text_of(dialect, whole) == "Let me see."
    events = streamed(server, path, body)
    assert json.loads("".join(argument_piece(dialect, event) for event in events)) == {"command": value}
    assert "".join(piece_of(dialect, event) for event in events) == "Let me see."


@pytest.mark.parametrize("dialect", CALLING)
@pytest.mark.parametrize(
    "parameters,expected",
    [
        ([("days", False, "3"), ("exact", False, "true"), ("until", False, "null")], {"days": 3, "exact": True, "until": None}),
        ([("city", True, "3"), ("days", False, "-1.5e3")], {"city": "3", "days": -1500.0}),
        ([("arguments", False, '{"city": "Paris", "days": 3}')], {"city": "Paris", "days": 3}),
        ([("input", True, '{"city": "Paris"}')], {"city": "Paris"}),
        ([("input", False, '{"town": "Paris"}')], {"input": {"town": "Paris"}}),
    ],
)
def test_b26_arguments_are_typed_and_a_wrapper_goes(server, dialect, parameters, expected):
    fields = {"city": {"type": "string"}, "days": {"type": "number"}, "exact": {"type": "boolean"}, "until": {}}
    takes_any = tool("weather", fields, additionalProperties=True)  # else the wrapper's name cannot be drawn
    path, body = body_of(dialect, call_ids(server, "weather", parameters), **with_tools(dialect, [takes_any]))
    assert json.loads(arguments_of(dialect, post(server, path, body)[1])) == expected
    assert json.loads("".join(argument_piece(dialect, event) for event in streamed(server, path, body))) == expected


@pytest.mark.parametrize("dialect", CALLING)
@pytest.mark.parametrize("name", ["arguments", "input"])
def test_b26_a_field_of_the_wrappers_name_stays(server, dialect, name):
    ids = call_ids(server, "wrap", [(name, False, '{"city": "Paris"}')])
    path, body = body_of(
        dialect, ids, **with_tools(dialect, [tool("wrap", {name: {"type": "object"}, "city": {"type": "string"}})])
    )
    assert json.loads(arguments_of(dialect, post(server, path, body)[1])) == {name: {"city": "Paris"}}


# --- caches ---


def png(width, height, rows=None):
    """A PNG; without `rows` only its header, which claims that size."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return head if rows is None else head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def noise(seed, side=64):
    generator = random.Random(seed)
    return png(side, side, b"".join(b"\0" + generator.randbytes(side * 3) for _ in range(side)))


def data_url(image):
    return "data:image/png;base64," + base64.b64encode(image).decode()


def ask_about(server, url, text="word " * 40, **more):
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": text}]
    body = {
        "messages": [{"role": "user", "content": parts}],
        "max_tokens": 4,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 3,
        **OFF,
        **more,
    }
    return post(server, "/v1/chat/completions", body)


def test_b29_images_of_one_size_share_nothing(seeing):
    answers = {}
    for name in ("first", "second"):
        status, answers[name] = ask_about(seeing, data_url(noise(name)))
        assert status == 200
        assert answers[name]["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert answers["first"]["usage"]["prompt_tokens"] == answers["second"]["usage"]["prompt_tokens"] > 128
    assert answers["first"]["choices"][0]["logprobs"] != answers["second"]["choices"][0]["logprobs"]
    for name in ("second", "first"):
        again = ask_about(seeing, data_url(noise(name)))[1]
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 128
        assert again["choices"][0]["logprobs"] == answers[name]["choices"][0]["logprobs"]


def test_b31_an_aborted_stream_leaves_its_prefix(server):
    first = {"role": "user", "content": " ".join(f"word{i}" for i in range(150))}
    said = spelled("One two three four. " * 40)
    path, body = chat_body(said, stream=True)
    body["messages"] = [first]
    data = json.dumps(body).encode()
    raw = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    raw.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    received = b""
    while received.count(b"data: ") < 100:
        received += raw.recv(65536)
    raw.close()
    deadline = time.monotonic() + 30
    while json.loads(request(server, "GET", "/debug/state")[2])["requests"] and time.monotonic() < deadline:
        time.sleep(0.02)
    alone = post(server, "/tokenize", {"messages": [first], **OFF})[1]["count"]
    following = {"messages": [first, {"role": "user", "content": "And now?"}], "max_tokens": 4, **OFF}
    usage = post(server, path, following)[1]["usage"]
    assert usage["prompt_tokens"] > alone > 256
    assert usage["prompt_tokens_details"]["cached_tokens"] >= (alone - 1) // 128 * 128


# --- images from outside ---


def test_b44_large_images_and_addresses_are_refused_at_once(seeing):
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.2)
    port = listener.getsockname()[1]
    addresses = ["http://169.254.169.254/latest/meta-data", "file:///etc/passwd", "ftp://127.0.0.1/a.png"]
    addresses += [
        f"http://{host}:{port}/a.png"
        for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433")
    ]
    for url in [data_url(png(40_000, 40_000)), data_url(png(65_535, 65_535)), *addresses]:
        began = time.monotonic()
        status, answer = ask_about(seeing, url, text="what?")
        assert (status, answer["error"]["type"]) == (400, "invalid_request_error"), (url[:60], answer)
        assert time.monotonic() - began < 5
    with pytest.raises(TimeoutError):
        listener.accept()
    listener.close()
    status, answer = ask_about(seeing, "data:image/png;base64," + "A" * (100 << 20), text="what?")
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    percent = "data:image/png," + "".join(f"%{byte:02X}" for byte in noise(1, 32))
    assert ask_about(seeing, percent, text="what?")[0] == 200


def test_b44_a_body_beyond_the_limit_is_refused(server):
    assert ask_about(server, "data:image/png;base64," + "A" * (100 << 20))[0] == 413
