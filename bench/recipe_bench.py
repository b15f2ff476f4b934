#!/usr/bin/env python3
"""How fast our recipe is beside the peer's, the PyPI package deepseek-recipe 0.2.0.

    python bench/recipe_bench.py [ROUNDS]      (in an environment with deepinfer and the peer; `./build.sh test` makes one)

Both are called through Python in this process, on one core, turn by turn; times are processor time, numbers are medians of
the rounds (7), the ratio that of the ratios within a round. Above 1 ours is faster. Both get dictionaries and give what a
service needs: prompt text and ids for a request; for an output its events as dictionaries, id by id, or the body. Inputs are
the recorded vectors that both answer alike, and two that are built here: a conversation of tool calls and results of about
8000 tokens, an answer of reasoning, text and calls of about 3000. Exits with 1 where a ratio is below 1.
"""

import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from recipe_peer import TOOLS, answer_of, cases_of, dialect_of, request_of_setup  # noqa: E402
from recipe_sides import MODEL, OurSide, Output, PeerSide, write_tokenizer  # noqa: E402

ROUND_SECONDS = 0.4  # of each side, at least

PARAGRAPH = (
    "The harbour froze on the night of {day} November, and by dawn {count} boats lay locked in grey ice beside the pier. "
    "Fischer zählte sie zweimal; the log says 零下{day}度, wind from the north-east at {speed:.1f} m/s.\n"
)
CODE = (
    "def total(values):\n    result = 0\n    for index, value in enumerate(values):\n"
    "        result += value * {day}  # weighted\n    return result\n\n"
)


def paragraphs(count):
    texts = (CODE if i % 5 == 4 else PARAGRAPH for i in range(count))
    return "".join(text.format(day=1 + i % 28, count=3 * i + 2, speed=i * 0.7) for i, text in enumerate(texts))


def long_conversation():
    messages = [{"role": "system", "content": "You keep the log of a harbour. " + paragraphs(6)}]
    for turn in range(8):
        fields = ["wind", "ice", {"unit": "m/s", "limit": 12.5}]
        arguments = json.dumps({"city": f"Port {turn}", "days": turn, "fields": fields})
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
        messages += [
            {"role": "user", "content": f"Question {turn}. " + paragraphs(5)},
            {"role": "assistant", "content": "Let me look.", "reasoning_content": paragraphs(4), "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": json.dumps({"log": paragraphs(5)}, ensure_ascii=False)},
            {"role": "assistant", "content": paragraphs(3), "reasoning_content": "Now I know."},
        ]
    messages.append({"role": "user", "content": "Sum it up."})
    return {"messages": messages, "tools": TOOLS}


def long_answer():
    marker = "｜DSML｜"

    def parameter(name, kind, value):
        return f'<{marker} parameter name="{name}" string="{kind}">{value}</{marker} parameter>\n'

    calls = [
        f'<{marker} invoke name="get_weather">\n{parameter("city", "true", paragraphs(6))}'
        f'{parameter("days", "false", i)}</{marker} invoke>\n'
        for i in range(3)
    ]
    return f"{paragraphs(22)}</think>{paragraphs(16)}\n\n<{marker} calls>\n{''.join(calls)}</{marker} calls>"


# --- what is timed ----------------------------------------------------------------------------------------------------------


def encodings(ours, peer):
    """(name, requests with dialects)"""
    alike = []
    for group in ("encoding_v41", "encoding_protocols_v41"):
        for case in cases_of(group):
            request = {"model": MODEL, **case["request"]}
            if ours.encode(request, dialect_of(case)) == peer.encode(request, dialect_of(case)):
                alike.append((request, dialect_of(case)))
    long = ({"model": MODEL, **long_conversation()}, "chat")
    assert ours.encode(*long) == peer.encode(*long)
    return [("vectors", alike), ("long", [long])]


def parsings(ours, peer):
    """(name, requests with outputs)"""
    vectors = []
    for case in cases_of("stream_parser"):
        if case["engine_finish"] != "content_filter" and "deviation" not in case:
            output = Output(token_ids=case["token_ids"], finish=case["engine_finish"])
            vectors.append((request_of_setup(case["setup"]), output))
    request = {"messages": [{"role": "user", "content": "Go on."}], "tools": TOOLS}
    long = (request, Output(token_ids=peer.ids_of(long_answer())))
    assert answer_of(ours.body(request, "chat", long[1])) == answer_of(peer.body(request, "chat", long[1]))
    return [("vectors", vectors), ("long", [long])]


def encode(side, requests):
    for request, dialect in requests:
        side.encode(request, dialect)


def encode_peer_ids(side, requests):
    """Without the prompt's text, which our side always gives."""
    for request, dialect in requests:
        (side.encode_ids if isinstance(side, PeerSide) else side.encode)(request, dialect)


def opened(side, outputs):
    """Not timed: the requests are read and their prompts encoded."""
    return [(side.open(request, "chat"), output) for request, output in outputs]


def parse_stream(side, answers):
    for answer, output in answers:
        for token in output.token_ids:
            answer.take([token])
        answer.end(output.finish)


def body(side, outputs):
    """All ids at once."""
    for request, output in outputs:
        side.body(request, "chat", output)


def as_they_are(side, items):
    return items


def seconds_of(side, prepare, timed, items, repeats):
    """Processor time of one pass over the items."""
    prepared = [prepare(side, items) for _ in range(repeats)]
    begin = time.process_time()
    for one in prepared:
        timed(side, one)
    return (time.process_time() - begin) / repeats


def compare(name, sides, prepare, timed, items, tokens, rounds):
    """Prints a line; returns how many times as fast the first side is."""
    repeats = []
    for side in sides:
        seconds_of(side, prepare, timed, items, 2)
        repeats.append(max(1, round(ROUND_SECONDS / seconds_of(side, prepare, timed, items, 2))))
    rows = []
    for _ in range(rounds):
        rows.append([seconds_of(side, prepare, timed, items, count) for side, count in zip(sides, repeats)])
    times = [statistics.median(column) for column in zip(*rows)]
    ratio = statistics.median(theirs / ours for ours, theirs in rows)
    tokens_per_s = "".join(f"{tokens / one / 1e3:10.0f}" for one in times)
    items_per_s = "".join(f"{len(items) / one:10.0f}" for one in times)
    print(f"{name:<44}{tokens_per_s}{items_per_s}{ratio:8.2f}", flush=True)
    return ratio


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        write_tokenizer(folder)
        sides = (OurSide(folder), PeerSide(folder))
        print(f"{'':<44}{'thousand tokens/s':>20}{'requests/s':>20}")
        print(f"{'':<44}" + f"{'ours':>10}{'peer':>10}" * 2 + f"{'ratio':>8}")
        for name, requests in encodings(*sides):
            tokens = sum(len(sides[0].encode(*request)[1]) for request in requests)
            name = f"{name} ({len(requests)}, {tokens} tokens)"
            ratios.append(compare(f"encode, {name}", sides, as_they_are, encode, requests, tokens, rounds))
            ratios.append(compare("  peer without the text", sides, as_they_are, encode_peer_ids, requests, tokens, rounds))
        for name, outputs in parsings(*sides):
            tokens = sum(len(output.token_ids) for _, output in outputs)
            name = f"{name} ({len(outputs)}, {tokens} tokens)"
            ratios.append(compare(f"parse, {name}, id by id", sides, opened, parse_stream, outputs, tokens, rounds))
            ratios.append(compare("  request and ids to a body", sides, as_they_are, body, outputs, tokens, rounds))
    print(f"lowest ratio {min(ratios):.2f}")
    return 0 if min(ratios) >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
