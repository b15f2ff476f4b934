"""The static page in a headless browser, over the real server. DEEPINFER_PROGRAM names the program; default:
build/deepinfer. Skipped where no chromium is installed (DEEPINFER_CHROMIUM may name one). With DEEPINFER_SCREENSHOT set,
docs/page.png is made anew."""

import base64
import json
import os
import re
import struct
import subprocess
import zlib

import pytest

from cli_test import PROGRAM, REPOSITORY
from page_browser import Browser, browser_program, end, wait_until

CHROMIUM = browser_program()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome in PATH; install the package chromium")

MARKUP = '<img src=x onerror="window.wasRun = true">'


class Server:
    def __init__(self, folder, *arguments):
        self.log_path = folder / "server.log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DEEPINFER_")}
        self.log = open(self.log_path, "wb")
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--port", "0", "--max-model-len", "2048", *arguments],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=environment,
        )
        try:
            self.address = wait_until(self._address, "the line with the server's address")
        except AssertionError:
            self.close()
            raise

    def _address(self):
        text = self.log_path.read_text(errors="replace")
        assert self.process.poll() is None, text[-2000:]
        match = re.search(r"^listening on (http://127\.0\.0\.1:\d+)\n", text, re.MULTILINE)
        return match and match.group(1)

    def close(self):
        end(self.process)
        self.log.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = Browser(CHROMIUM, tmp_path_factory.mktemp("browser"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    started = Server(tmp_path_factory.mktemp("server"))
    yield started
    started.close()


@pytest.fixture
def tab(browser, server):
    opened = browser.open(server.address + "/")
    opened.wait("document.getElementById('context').textContent.startsWith('context ')", "the model's context")
    yield opened
    opened.close()


def send(tab, text):
    tab.fill("#input", text)
    tab.click("#send")


def wait_for_end(tab):
    tab.wait("document.querySelector('#stop').disabled && !document.querySelector('#send').disabled", "the end of the answer")


def delta(reason=None, **fields):
    chunk = {"choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}
    return "data: " + json.dumps(chunk, ensure_ascii=False) + "\n\n"


def answer_with(tab, *streams, pieces=7):
    """From now on the page's requests for answers get these bodies, one after the other, in pieces of so many bytes; what
    it asked lies in `asked`. A body that does not end with [DONE] or an error stays open until it is aborted."""
    tab.value("""(() => {
        const streams = %s.map((text) => new TextEncoder().encode(text));
        const real = window.fetch;
        window.asked = [];
        window.fetch = (address, options) => {
            if (!String(address).endsWith("/v1/chat/completions")) return real(address, options);
            asked.push(JSON.parse(options.body));
            const bytes = streams.shift();
            const stays = !new TextDecoder().decode(bytes).match(/\\[DONE\\]|"error"|CUT/);
            return Promise.resolve(new Response(new ReadableStream({
                start(controller) {
                    for (let at = 0; at < bytes.length; at += %d) controller.enqueue(bytes.slice(at, at + %d));
                    if (!stays) return controller.close();
                    options.signal.addEventListener("abort", () => {
                        window.wasAborted = true;
                        controller.error(new DOMException("aborted", "AbortError"));
                    });
                },
            })));
        };
    })()""" % (json.dumps(streams), pieces, pieces))


# --- with the real server ----------------------------------------------------


def test_a_streamed_answer_appears_and_the_live_view_shows_numbers(tab, tmp_path):
    tab.fill("#thinking", "disabled")
    tab.fill("#max-tokens", "24")
    tab.fill("#temperature", "0")
    send(tab, "Tell me a story")
    tab.wait("document.querySelector('.answer')?.textContent.trim().length > 0", "text of the answer")
    wait_for_end(tab)
    assert re.search(r"ended: (length|stop) · \d+ prompt tokens \(\d+ cached\) · \d+ output tokens", tab.text(".usage"))
    assert tab.text("#status") == "" and tab.count(".error") == 0
    # The view is a second behind: the hit rate is a number once it has seen the prompt.
    tab.wait("/output tokens\\/s\\d.*prefix hit rate\\d/.test(document.getElementById('live-numbers').textContent)", "rates")
    numbers = tab.text("#live-numbers")
    assert re.search(r"running\d+", numbers) and re.search(r"waiting\d+", numbers)
    assert re.search(r"cache blocks in use\d+ of \d+ \(", numbers)
    assert re.search(r"output tokens/s[\d.]+prompt", numbers) and re.search(r"prefix hit rate[\d.]+ %", numbers)
    assert tab.text("#live-note") == ""
    picture = base64.b64decode(tab.screenshot())
    assert picture.startswith(b"\x89PNG")
    (tmp_path / "page.png").write_bytes(picture)
    if os.environ.get("DEEPINFER_SCREENSHOT"):
        (REPOSITORY / "docs" / "page.png").write_bytes(picture)


def test_reasoning_is_shown_folded(tab):
    tab.fill("#thinking", "enabled")
    tab.fill("#max-tokens", "16")
    tab.fill("#temperature", "0")
    send(tab, "Tell me a story")
    wait_for_end(tab)
    assert tab.count("details.reasoning") == 1
    assert not tab.value("document.querySelector('.reasoning').open")
    assert len(tab.text(".reasoning pre").strip()) > 0


def test_an_error_of_the_server_is_said_and_the_message_given_back(tab):
    tab.fill("#temperature", "5")
    send(tab, MARKUP)
    tab.wait("document.getElementById('status').classList.contains('error')", "the error")
    assert "400" in tab.text("#status") and "temperature" in tab.text("#status")
    assert tab.value("document.getElementById('input').value") == MARKUP
    tab.fill("#temperature", "0")
    tab.fill("#thinking", "disabled")
    tab.fill("#max-tokens", "4")
    tab.click("#send")
    wait_for_end(tab)
    assert tab.text("#status") == "" and tab.count(".usage") == 1
    assert tab.text(".message.user .text") == MARKUP


def test_an_image_that_the_model_cannot_see_is_refused_in_plain_words(tab, tmp_path):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    path = tmp_path / "dot.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b""))
    tab.attach("#attach", path)
    tab.wait("document.querySelectorAll('#images li').length === 1", "the attached image")
    send(tab, "What is this?")
    tab.wait("document.getElementById('status').classList.contains('error')", "the error")
    assert "400" in tab.text("#status") and "image" in tab.text("#status")
    assert tab.value("document.querySelector('.message.user img').src").startswith("data:image/png;base64,")
    assert tab.count("#images li") == 1  # given back


def test_stop_ends_the_answer_and_the_request_at_the_server(tab):
    # Long enough not to end by itself; stopped by the page itself as soon as text stands there.
    tab.value("""(() => {
        const real = window.fetch;
        window.fetch = (address, options) => {
            if (!String(address).endsWith("/v1/chat/completions")) return real(address, options);
            return real(address, {...options, body: JSON.stringify({...JSON.parse(options.body), ignore_eos: true})});
        };
        new MutationObserver((changes, observer) => {
            if (!document.querySelector(".answer")?.textContent) return;
            observer.disconnect();
            document.getElementById("stop").click();
        }).observe(document.getElementById("messages"), {childList: true, subtree: true});
    })()""")
    tab.fill("#thinking", "disabled")
    tab.fill("#max-tokens", "1900")
    tab.fill("#temperature", "0")
    send(tab, "Tell me a story")
    tab.wait("document.querySelector('.usage')?.textContent.startsWith('stopped')", "the end of the answer")
    assert len(tab.text(".answer")) > 0 and tab.text("#status") == ""
    tab.wait("fetch('/debug/state').then((answer) => answer.json()).then((state) => state.requests.length === 0)", "an idle server")
    tab.fill("#max-tokens", "4")
    send(tab, "Another one")
    tab.wait("document.querySelectorAll('.usage').length === 2", "the next answer")
    assert "ended:" in tab.value("[...document.querySelectorAll('.usage')].at(-1).textContent")


def test_without_a_key_chat_and_live_view_say_so_and_with_one_they_work(browser, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text('{"name": "user", "key": "user-key"}\n{"name": "admin", "key": "admin-key", "admin": true}\n')
    server = Server(tmp_path, "--api-key-file", str(keys))
    try:
        tab = browser.open(server.address + "/")
        tab.wait("document.getElementById('live-note').textContent.includes('401')", "the live view's note")
        tab.wait("document.getElementById('status').textContent.includes('401')", "the chat's note")
        tab.fill("#api-key", "user-key")
        tab.wait("document.getElementById('context').textContent.startsWith('context ')", "the model's context")
        tab.wait("document.getElementById('live-note').textContent.includes('403')", "the live view's note")
        tab.fill("#api-key", "admin-key")
        tab.wait("document.getElementById('live-numbers').textContent.includes('running')", "numbers")
        assert tab.value("sessionStorage.length") == 1 and tab.value("Object.keys(window['local' + 'Storage']).length") == 0
        tab.close()
    finally:
        server.close()


# --- with answers made up here -------------------------------------------------


def test_markup_stays_text_wherever_it_comes_from(tab):
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": MARKUP, "arguments": MARKUP}}
    answer_with(tab, delta(reasoning_content=MARKUP) + delta(content=MARKUP) + delta(tool_calls=[call])
                + delta("tool_calls", content="") + "data: [DONE]\n\n")
    send(tab, MARKUP)
    wait_for_end(tab)
    for selector in (".message.user .text", ".reasoning pre", ".answer", ".tool-name", ".tool-arguments"):
        assert tab.text(selector) == MARKUP, selector
    assert tab.count("#messages img") == 0
    assert tab.value("window.wasRun === undefined")


@pytest.mark.parametrize("pieces", [1, 3, 100000])
def test_a_stream_is_read_however_it_is_cut(tab, pieces):
    text = "Grüße, 你好 🙂"
    body = ": keep-alive\n\n" + delta(role="assistant", content="") + "".join(delta(content=letter) for letter in text)
    answer_with(tab, body + delta("stop", content="") + "data: [DONE]\n\n", pieces=pieces)
    send(tab, "hi")
    wait_for_end(tab)
    assert tab.text(".answer") == text
    assert tab.text("#status") == ""


def test_tool_calls_are_answered_by_hand(tab):
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
    opened = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ""}}
    pieces = [{"index": 0, "function": {"arguments": piece}} for piece in ('{"city": ', '"Paris"}')]
    answer_with(
        tab,
        delta(reasoning_content="R") + delta(tool_calls=[opened]) + "".join(delta(tool_calls=[piece]) for piece in pieces)
        + delta("tool_calls", content="") + "data: [DONE]\n\n",
        delta(content="Sunny.") + delta("stop", content="") + "data: [DONE]\n\n",
    )
    tab.fill("#tools", json.dumps(tools))
    send(tab, "Weather in Paris?")
    wait_for_end(tab)
    assert tab.text(".tool-call .tool-name") == "get_weather"
    assert tab.text(".tool-call .tool-arguments") == '{"city": "Paris"}'
    send(tab, "and London?")
    assert "results of its tool calls" in tab.text("#status")
    tab.fill(".tool-result", "20 degrees")
    tab.click(".send-results")
    tab.wait("document.querySelector('.answer')?.textContent === 'Sunny.'", "the answer after the result")
    first, second = tab.value("asked")
    assert first["tools"] == tools and first["stream"] is True
    assert second["messages"] == [
        {"role": "user", "content": "Weather in Paris?"},
        {"role": "assistant", "content": "", "reasoning_content": "R", "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "20 degrees"},
    ]


def test_stop_aborts_the_request_and_keeps_what_came(tab):
    answer_with(tab, delta(content="Once"), delta(content="more") + delta("stop", content="") + "data: [DONE]\n\n")
    send(tab, "hi")
    tab.wait("document.querySelector('.answer')?.textContent === 'Once'", "text of the answer")
    tab.click("#stop")
    wait_for_end(tab)
    assert tab.value("window.wasAborted") and tab.text("#status") == ""
    assert tab.text(".usage").startswith("stopped")
    send(tab, "go on")
    wait_for_end(tab)
    assert [message["content"] for message in tab.value("asked")[1]["messages"]] == ["hi", "Once", "go on"]


@pytest.mark.parametrize(
    ("end_of_stream", "message"),
    [('data: {"error": {"message": "the engine failed"}}\n\n', "the engine failed"),
     (": CUT\n\n", "the connection ended before the answer did")],
)
def test_a_stream_that_fails_is_never_shown_as_complete(tab, end_of_stream, message):
    answer_with(tab, delta(content="Once") + end_of_stream)
    send(tab, "hi")
    wait_for_end(tab)
    assert tab.text(".answer") == "Once"
    assert tab.text("#status") == message and tab.text(".error#status, .message .error") == message
    assert tab.count(".usage") == 0


def test_the_live_view_shows_rates_acceptance_and_requests_as_the_server_counts_them(tab):
    # Each state has ten tokens more than the one before; the numbers are easy to divide.
    tab.value("""(() => {
        const real = window.fetch;
        let tokens = 1e9;
        window.fetch = (address, options) => {
            if (address !== "/debug/state") return real(address, options);
            tokens += 10;
            return Promise.resolve(Response.json({
                engine: {steps: 1, running: 2, waiting: 3, prompt_tokens: 30, cached_tokens: 90, output_tokens: tokens,
                         drafted_tokens: 8, accepted_tokens: 6, verified_by_position: [4, 4, 0], accepted_by_position: [4, 2, 0],
                         preemptions: 5, blocks_used: 16, blocks_cached: 7, blocks_total: 64, model_ms_total: 1.5},
                connections: 9, uptime_s: 7300,
                requests: [{id: "chatcmpl-1", request_id: "r", key: %s, phase: "waiting", age_ms: 4000, prompt_tokens: 11,
                            cached_tokens: 6, choices: 1, streaming: true}],
            }));
        };
    })()""" % json.dumps(MARKUP))
    tab.wait("/^[1-9].*[0-9]$/.test(document.querySelectorAll('#live-numbers dd')[2]?.textContent)"
             " && document.querySelector('#live-numbers dd').textContent === '2'", "a rate of these states")
    tab.wait("parseFloat(document.querySelectorAll('#live-numbers dd')[2].textContent) <= 10", "the rate of two of these states")
    numbers = tab.value("Object.fromEntries([...document.querySelectorAll('#live-numbers dt')]"
                        ".map((name) => [name.textContent, name.nextElementSibling.textContent]))")
    rate = float(numbers.pop("output tokens/s"))
    assert 0 < rate <= 10.1  # ten tokens in a second, or in more on a busy machine
    assert numbers == {
        "running": "2", "waiting": "3", "prompt tokens/s": "0.0", "steps/s": "0.0", "cache blocks in use": "16 of 64 (25.0 %)",
        "kept for prefixes": "7", "prefix hit rate": "75.0 %", "drafts accepted": "75.0 %", "preemptions": "5",
        "connections": "9", "up": "2.0 h",
    }
    assert tab.value("[...document.querySelectorAll('#live-positions li')].map((row) => row.textContent)") == ["100.0 %", "50.0 %", "-"]
    assert tab.value("[...document.querySelectorAll('#live-positions meter')].map((bar) => bar.value)") == [1, 0.5, 0]
    assert tab.value("[...document.querySelectorAll('#live-requests td')].map((cell) => cell.textContent)") == [
        "chatcmpl-1", "waiting", "4 s", "11", "6", "1", MARKUP]
    assert tab.count("#live img") == 0 and tab.value("window.wasRun === undefined")


def test_what_is_no_number_is_refused_instead_of_ignored(tab):
    answer_with(tab, delta(content="a") + delta("stop", content="") + "data: [DONE]\n\n")
    tab.value("document.getElementById('max-tokens').focus()")
    tab.call("Input.insertText", text="1e")
    send(tab, "hi")
    tab.wait("document.getElementById('status').classList.contains('error')", "the error")
    assert tab.text("#status") == "Max tokens is no number"
    assert tab.value("asked") == [] and tab.value("document.getElementById('input').value") == "hi"


def test_settings_are_sent_as_they_stand(tab):
    answer_with(tab, *2 * [delta(content="a") + delta("stop", content="") + "data: [DONE]\n\n"])
    send(tab, "hi")
    wait_for_end(tab)
    for selector, value in (("#thinking", "enabled"), ("#effort", "high"), ("#temperature", "0.5"), ("#max-tokens", "9")):
        tab.fill(selector, value)
    send(tab, "hi")
    wait_for_end(tab)
    first, second = tab.value("asked")
    assert not {"thinking", "reasoning_effort", "temperature", "max_tokens"} & set(first)
    assert second["thinking"] == {"type": "enabled"} and second["reasoning_effort"] == "high"
    assert second["temperature"] == 0.5 and second["max_tokens"] == 9
