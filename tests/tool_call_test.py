"""Tool calls that the small model draws at temperature 1: every one parses, is of an offered tool and valid for its schema.

DEEPINFER_TOOL_GENERATIONS says how many answers are drawn (60; the full run is 1000).
"""

import asyncio
import copy
import json
import os
import random

import jsonschema
import openai
import pytest

from server_process import Server

GENERATIONS = int(os.environ.get("DEEPINFER_TOOL_GENERATIONS", "60"))
OFFERED_MAX = 5  # the small model was trained on 1,024 tokens
AT_ONCE = 16
TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
NUMBER = {"type": "number"}
CURRENCY = {"type": "string", "enum": ["EUR", "USD", "GBP"]}
POINT = {"type": "object", "properties": {"x": WHOLE, "y": WHOLE}, "required": ["x", "y"]}
NODE = {
    "type": "object",
    "properties": {"left": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["left"],
}


def within(least, most):
    return {"type": "integer", "minimum": least, "maximum": most}


def schema(required, **properties):
    """All properties; `required`: the names of some."""
    return {"properties": properties, "required": required.split()}


# name: parameters
SCHEMAS = {
    "get_weather": schema("city", city={"type": "string", "description": "City name"}, days=WHOLE),
    "clock": {},
    "search": schema("query", query=TEXT, limit=within(1, 50)),
    "set_volume": schema("level", level=within(0, 10)),
    "convert": schema("amount source target", amount=NUMBER, source=CURRENCY, target=CURRENCY),
    "book_room": schema("hotel nights", hotel=TEXT, nights=within(1, 30), breakfast={"type": "boolean"}),
    "send_mail": schema("to text", to={"type": "array", "items": TEXT, "minItems": 1, "maxItems": 3}, text=TEXT),
    "translate": schema("text", text=TEXT, language={"type": "string", "enum": ["de", "fr", "it"]}),
    "add": schema("a b", a=NUMBER, b=NUMBER),
    "toggle": schema("on", on={"type": "boolean"}),
    "remind": schema("at", at={"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"}, what=TEXT),
    "lookup": schema("id", id={"type": "string", "pattern": "^[A-Z]{2}[0-9]{3}$"}),
    "note": schema("title body", title={"type": "string", "maxLength": 12}, body={"type": ["string", "null"]}),
    "point": schema("where", where=POINT),
    "tag": schema("", tags={"type": "array", "items": {"enum": ["red", "blue"]}, "maxItems": 4}),
    "either": schema("value", value={"anyOf": [WHOLE, {"type": "null"}]}),
    "tree": {**schema("root", root={"$ref": "#/$defs/node"}), "$defs": {"node": NODE}},
    "on_date": schema("date", date={"type": "string", "format": "date"}),
    "constant": schema("mode", mode={"const": "safe"}, size={"enum": [1, 2, 4]}),
    "free": {**schema("", payload={"type": "object"}), "additionalProperties": True},
}
# Those whose schema is one of a strict tool as well.
STRICT_TOO = {"set_volume", "convert", "add", "toggle", "lookup", "either"}
QUESTIONS = ["Weather in Paris?", "What time is it?", "Add two and three.", "Book a room.", "Please use a tool.", "Hello"]


def parameters_of(name):
    return copy.deepcopy({"type": "object", **SCHEMAS[name]}) if SCHEMAS[name] else {}


def request_for(number):
    """The request of one seed."""
    draw = random.Random(number)
    names = draw.sample(sorted(SCHEMAS), draw.randint(1, OFFERED_MAX))
    tools = []
    for name in names:
        function = {"name": name, "description": f"The tool {name}.", "parameters": parameters_of(name)}
        if name in STRICT_TOO and draw.random() < 0.5:
            function["strict"] = True
            function["parameters"]["additionalProperties"] = False
        tools.append({"type": "function", "function": function})
    choice = draw.choice(["auto", "required", "required", {"type": "function", "function": {"name": names[0]}}])
    return {
        "model": "v41-mini",
        "messages": [{"role": "user", "content": draw.choice(QUESTIONS)}],
        "tools": tools,
        "tool_choice": choice,
        "parallel_tool_calls": draw.random() < 0.7,
        "temperature": 1,
        "seed": number,
        "max_tokens": 300,
        "extra_body": {"thinking": {"type": draw.choice(["enabled", "disabled"])}},
    }


async def draw_answers(url):
    """(request, answer) of all seeds, some at once, whole and streamed in turn."""
    client = openai.AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    places = asyncio.Semaphore(AT_ONCE)

    async def one(number):
        asked = request_for(number)
        async with places:
            if number % 2 == 0:
                return asked, joined([(await client.chat.completions.create(**asked)).choices[0]])
            stream = await client.chat.completions.create(**asked, stream=True)
            return asked, joined([chunk.choices[0] async for chunk in stream if chunk.choices])

    answers = await asyncio.gather(*(one(number) for number in range(GENERATIONS)))
    await client.close()
    return answers


def joined(choices):
    """Content, reasoning, calls [name, arguments] and finish reason of one choice or of the pieces of a stream."""
    content, reasoning, calls, finish = "", "", [], None
    for choice in choices:
        part = choice.message if hasattr(choice, "message") else choice.delta
        content += part.content or ""
        reasoning += getattr(part, "reasoning_content", None) or ""
        for call in part.tool_calls or []:
            if call.function.name:
                calls.append([call.function.name, ""])
            calls[-1][1] += call.function.arguments or ""
        finish = choice.finish_reason or finish
    return content, reasoning, calls, finish


def check(asked, answer):
    """Asserts that the answer keeps what was asked; the number of calls that were not cut."""
    content, reasoning, calls, finish = answer
    offered = {tool["function"]["name"]: tool["function"] for tool in asked["tools"]}
    for text in (content, reasoning):
        assert "DSML" not in text and "invoke name" not in text, text
    is_cut = finish == "length"
    if asked["tool_choice"] != "auto" and not is_cut:
        assert calls and content == "", answer
    if calls and not is_cut:
        assert finish == "tool_calls", answer
    if not asked["parallel_tool_calls"]:
        assert len(calls) <= 1, answer
    whole = calls[:-1] if is_cut else calls
    for name, arguments in whole:
        assert name in offered, answer
        if isinstance(asked["tool_choice"], dict):
            assert name == asked["tool_choice"]["function"]["name"]
        value = json.loads(arguments)
        declared = offered[name]["parameters"]
        further = declared.get("additionalProperties", not declared)
        jsonschema.validate(value, {**declared, "additionalProperties": further})
        if offered[name].get("strict"):
            assert set(value) == set(declared["properties"])
    return len(whole)


def test_every_drawn_call_is_valid():
    with Server() as server:
        answers = asyncio.run(draw_answers(server.url))
    counted = {"calls": 0, "answers with calls": 0, "cut": 0}
    for asked, answer in answers:
        try:
            valid = check(asked, answer)
        except (AssertionError, ValueError, jsonschema.ValidationError) as error:
            pytest.fail(f"seed {asked['seed']}: {error}\n{json.dumps(asked)}\n{answer}")
        counted["calls"] += valid
        counted["answers with calls"] += valid > 0
        counted["cut"] += answer[3] == "length"
    print(f"{len(answers)} answers: {counted}")
    assert counted["answers with calls"] * 2 >= len(answers), counted
