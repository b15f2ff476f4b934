"""Tool calls that the small model draws at temperature 1: every one parses, is of an offered tool and valid for its schema.

DEEPINFER_TOOL_GENERATIONS says how many answers are drawn (60; the full run is 1000).
"""

import asyncio
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
CITY = {"type": "string", "description": "City name"}

# name: parameters
SCHEMAS = {
    "get_weather": {"properties": {"city": CITY, "days": {"type": "integer"}}, "required": ["city"]},
    "clock": {},
    "search": {"properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1, "maximum": 50}}, "required": ["query"]},
    "set_volume": {"properties": {"level": {"type": "integer", "minimum": 0, "maximum": 10}}, "required": ["level"]},
    "convert": {
        "properties": {"amount": {"type": "number"}, "from": {"type": "string", "enum": ["EUR", "USD", "GBP"]}, "to": {"type": "string", "enum": ["EUR", "USD", "GBP"]}},
        "required": ["amount", "from", "to"],
    },
    "book_room": {
        "properties": {"hotel": {"type": "string"}, "nights": {"type": "integer", "minimum": 1, "maximum": 30}, "breakfast": {"type": "boolean"}},
        "required": ["hotel", "nights"],
    },
    "send_mail": {
        "properties": {"to": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3}, "text": {"type": "string"}},
        "required": ["to", "text"],
    },
    "translate": {"properties": {"text": {"type": "string"}, "language": {"type": "string", "enum": ["de", "fr", "it"]}}, "required": ["text"]},
    "add": {"properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]},
    "toggle": {"properties": {"on": {"type": "boolean"}}, "required": ["on"]},
    "remind": {"properties": {"at": {"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"}, "what": {"type": "string"}}, "required": ["at"]},
    "lookup": {"properties": {"id": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{3}$"}}, "required": ["id"]},
    "note": {"properties": {"title": {"type": "string", "maxLength": 12}, "body": {"type": ["string", "null"]}}, "required": ["title", "body"]},
    "point": {
        "properties": {"where": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "required": ["x", "y"]}},
        "required": ["where"],
    },
    "tag": {"properties": {"tags": {"type": "array", "items": {"enum": ["red", "blue"]}, "maxItems": 4}}},
    "either": {"properties": {"value": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}, "required": ["value"]},
    "tree": {
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "required": ["root"],
        "$defs": {"node": {"type": "object", "properties": {"left": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["left"]}},
    },
    "on_date": {"properties": {"date": {"type": "string", "format": "date"}}, "required": ["date"]},
    "constant": {"properties": {"mode": {"const": "safe"}, "size": {"enum": [1, 2, 4]}}, "required": ["mode"]},
    "free": {"properties": {"payload": {"type": "object"}}, "additionalProperties": True},
}
# Those whose schema is one of a strict tool as well.
STRICT_TOO = {"set_volume", "convert", "add", "toggle", "lookup", "either"}
QUESTIONS = ["Weather in Paris?", "What time is it?", "Add two and three.", "Book a room.", "Please use a tool.", "Hello"]


def parameters_of(name):
    return {"type": "object", **SCHEMAS[name]} if SCHEMAS[name] else {}


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
        schema = offered[name]["parameters"]
        jsonschema.validate(value, {**schema, "additionalProperties": schema.get("additionalProperties", not schema)})
        if offered[name].get("strict"):
            assert set(value) == set(schema["properties"])
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
