"""Why our recipe and the peer's differ: the rules D1 to D14 of the chat encoding, each as a check that can fail.

A rule is no name on a list. It says how the request or the output would have to be put for the peer to give what ours gives,
and holds only if the peer, asked again that way, does give it. Three more stand beside the fourteen. Two are of the Messages
dialect, where the peer leaves out what it does for Chat Completions: "strict" (strict tools are rebuilt in every dialect) and
"format" (the block of a response format is written in every dialect). "n" is a request for several choices, which the peer
refuses.
"""

import copy
import dataclasses
import json
import re
from collections.abc import Callable

from recipe_sides import Output, Refused

MARKER = "｜DSML｜"
VALUE_END = rf"</{MARKER} parameter>"
INVOKE_END = rf"</{MARKER} invoke>"


@dataclasses.dataclass
class Asked:
    """What the peer is asked instead, and what is done to its result and to ours before they are compared."""

    request: dict
    dialect: str
    output: Output | None = None
    edit_peer: Callable = lambda result: result
    edit_ours: Callable = lambda result: result


# --- prompts: request, dialect -> Asked or None -----------------------------------------------------------------------


def _big_integers(request, dialect):
    """D10: integers of any size keep their digits. Smaller ones stand in for them."""
    stand_ins = {}

    def replace(match):
        value = int(match.group())
        if -(2**63) <= value < 2**64:
            return match.group()
        return stand_ins.setdefault(match.group(), str(7000000001 + len(stand_ins)))

    text = re.sub(r"(?<![\w.\-])-?\d{19,}(?![\d.eE])", replace, json.dumps(request))

    def restore(prompt):
        for digits, stand_in in stand_ins.items():
            prompt = prompt.replace(stand_in, digits)
        return prompt

    return Asked(json.loads(text), dialect, edit_peer=restore) if stand_ins else None


def _more_input(request, dialect):
    """D11: the same thing said in words that the peer knows."""
    known = copy.deepcopy(request)
    for message in known.get("messages", []):
        _say_as_known(message)
    if isinstance(known.get("reasoning_effort"), int):
        known["reasoning_effort"] = {50: "low", 75: "high", 100: "max"}.get(known["reasoning_effort"])
    choice = known.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        names = [tool["name"] for tool in choice["tools"]]
        known["tools"] = [tool for tool in known["tools"] if tool["name"] in names]
        known["tool_choice"] = choice["mode"]
    for tool in known.get("tools") or []:
        if dialect == "responses" and tool["type"] == "custom":
            one_text = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
            tool.update(type="function", parameters=one_text)
    return Asked(known, dialect) if known != request else None


def _say_as_known(message):
    if message["role"] == "developer":
        message["role"] = "system"
    if "reasoning" in message:
        message.setdefault("reasoning_content", message.pop("reasoning"))
    if message.get("content") is None and message.get("refusal") is not None:
        message["content"] = message.pop("refusal")
    for call in message.get("tool_calls") or []:
        if not isinstance(call["function"]["arguments"], str):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    if isinstance(message.get("content"), list):
        message["content"] = [part for part in message["content"] if part["type"] != "redacted_thinking"]
        if any(part["type"] == "tool_result" for part in message["content"]):
            message["content"].sort(key=lambda part: part["type"] != "tool_result")


def _forced_calls(request, dialect):
    """D12: with thinking on a forced choice is the prompt of a free one, of the named tool alone; Messages' `any` forces."""
    choice = request.get("tool_choice")
    kind = choice.get("type") if isinstance(choice, dict) else choice
    if kind not in ("required", "function", "any", "tool"):
        return None
    is_off = request.get("thinking", {}).get("type") == "disabled"
    if is_off and kind != "any":
        return None
    free = copy.deepcopy(request)
    free["tool_choice"] = {"type": "auto"} if dialect == "messages" else "auto"
    name = (choice.get("function") or choice).get("name") if isinstance(choice, dict) else None
    if name:
        free["tools"] = [tool for tool in free["tools"] if (tool.get("function") or tool)["name"] == name]
    opener = f"\n\n<{MARKER} calls>\n" if is_off else ""
    return Asked(free, dialect, edit_peer=lambda prompt: prompt + opener)


def _kept_definitions(request, dialect):
    """D13: without its `$defs` and `definitions` our strict schema is the peer's."""
    if not re.search(r'"(\$defs|definitions)"', json.dumps(request)) or '"strict": true' not in json.dumps(request):
        return None

    def drop(prompt):
        lines = prompt.split("\n")
        for i, line in enumerate(lines):
            if line.startswith('{"name": '):
                tool = json.loads(line)
                for key in ("$defs", "definitions"):
                    tool["parameters"].pop(key, None)
                lines[i] = json.dumps(tool, ensure_ascii=False)
        return "\n".join(lines)

    return Asked(request, dialect, edit_ours=drop)


def _prefill(request, dialect):
    """D14: the last turn of Messages with thinking off is the peer's, left open."""
    off = request.get("thinking", {"type": "disabled"})["type"] == "disabled"
    if dialect != "messages" or not off or request["messages"][-1]["role"] != "assistant":
        return None
    end = "<｜end▁of▁sentence｜><｜Assistant｜></think>"
    return Asked({**request, "thinking": {"type": "disabled"}}, dialect, edit_peer=lambda prompt: prompt.removesuffix(end))


def _as_chat(request, dialect):
    """A Messages request of plain texts as a Chat request."""
    if dialect != "messages" or "system" in request:
        return None
    if not all(isinstance(message["content"], str) for message in request["messages"]):
        return None
    chat = {"messages": request["messages"]}
    tools = request.get("tools", [])
    if tools:
        renamed = [{"parameters" if key == "input_schema" else key: tool[key] for key in tool} for tool in tools]
        chat["tools"] = [{"type": "function", "function": tool} for tool in renamed]
    return chat


def _strict_messages(request, dialect):
    """Strict tools of Messages are those of Chat."""
    chat = _as_chat(request, dialect)
    return Asked(chat, "chat") if chat and any(tool.get("strict") for tool in request.get("tools", [])) else None


def _format_messages(request, dialect):
    """The response format of Messages is that of Chat."""
    chat = _as_chat(request, dialect)
    form = request.get("output_config", {}).get("format")
    if not chat or not form:
        return None
    chat["response_format"] = {"type": form["type"], form["type"]: {"name": "x", "schema": form["schema"]}}
    return Asked(chat, "chat")


def _several_choices(request, dialect):
    return Asked({**request, "n": 1}, dialect) if (request.get("n") or 1) > 1 else None


PROMPT_RULES = {
    "D10": _big_integers,
    "D11": _more_input,
    "D12": _forced_calls,
    "D13": _kept_definitions,
    "D14": _prefill,
    "strict": _strict_messages,
    "format": _format_messages,
    "n": _several_choices,
}


# --- answers: request, dialect, output -> Asked or None -------------------------------------------------------------------
# Results are those of `recipe_peer.answer_of`.


def _text_rule(rewrite, edit_peer=lambda answer: answer):
    """A rule that is another text of the output; the text is the joined pieces, or what the ids spell."""

    def rule(request, dialect, output):
        text = output.text()
        other = rewrite(text, request)
        return Asked(request, dialect, Output(pieces=[other], finish=output.finish), edit_peer) if other != text else None

    rule.__doc__ = rewrite.__doc__
    return rule


def _is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _json_values(text, request):
    """D1: a value that is not JSON becomes JSON, blanks around one are dropped."""

    def mend(match):
        value = match.group(2).strip()
        value = {"True": "true", "False": "false", "None": "null"}.get(value, value)
        return match.group(1) + (value if _is_json(value) else json.dumps(match.group(2), ensure_ascii=False)) + match.group(3)

    return re.sub(rf'(string="false">)(.*?)({VALUE_END})', mend, text, flags=re.S)


def _string_attribute(text, request):
    """D2: without a usable attribute the value is JSON if it can be, else text."""

    def mend(match):
        kind = "false" if _is_json(match.group(2)) else "true"
        return f'{match.group(1)} string="{kind}">{match.group(2)}{match.group(3)}'

    missing = r'(?: string="(?!true"|false")[^"]*")?>'
    return re.sub(rf'(parameter name="[^"]*"){missing}(.*?)({VALUE_END})', mend, text, flags=re.S)


def _object_body(text, request):
    """D3: a body that is an object is parameters."""

    def mend(match):
        if not _is_json(match.group(2)):
            return match.group()
        parameters = [
            f'<{MARKER} parameter name="{key}" string="false">{json.dumps(value, ensure_ascii=False)}</{MARKER} parameter>'
            for key, value in json.loads(match.group(2)).items()
        ]
        return match.group(1) + "\n".join(parameters) + "\n" + match.group(3)

    return re.sub(rf'(invoke name="[^"]*">\n)(\{{.*?\}})\s*({INVOKE_END})', mend, text, flags=re.S)


_STAND_IN = "\ue000"


def _mentioned_marker(text, request):
    """D4: a marker that opens no known tag is text. Another character stands in for it."""
    return re.sub(rf'<{MARKER}(?! calls>|tool_calls>|function_calls>| ?invoke name="| ?parameter)', f"<{_STAND_IN}", text)


def _restore_marker(answer):
    return {**answer, "content": answer["content"].replace(_STAND_IN, MARKER)}


def _nameless_calls(text, request):
    """D5: a call without a name is none, and a block without calls is none."""
    named = re.sub(rf'<{MARKER} invoke name="">.*?{INVOKE_END}\n', "", text, flags=re.S)
    return re.sub(rf"\s*<{MARKER} calls>\n</{MARKER} calls>", "", named)


def _opened_again(request, dialect, output):
    """D6: `<think>` at the start is not text; with thinking off it opens reasoning."""
    if not output.text().startswith("<think>"):
        return None
    thinking = {**request, "thinking": {"type": "enabled"}}
    return Asked(thinking, dialect, Output(pieces=[output.text().removeprefix("<think>")], finish=output.finish))


def _json_surroundings(request, dialect, output):
    """D7: what surrounds the JSON is dropped; the peer's blanks for it go."""
    if request.get("response_format") != {"type": "json_object"}:
        return None
    return Asked(request, dialect, output, edit_peer=lambda answer: {**answer, "content": answer["content"].strip(" ")})


def _second_block(text, request):
    """D8: a second block adds its calls to the first."""
    return re.sub(rf"</{MARKER} calls>\s*<{MARKER} calls>\n", "", text)


def _cut_character(request, dialect, output):
    """D9: half a character at the end is U+FFFD, as the peer has it once a token follows."""
    if output.token_ids is None or not output.text().endswith("\ufffd"):
        return None
    longer = Output(token_ids=[*output.token_ids, 16], finish=output.finish, spelled=output.spelled)  # "."

    def without_the_token(answer):
        return {**answer, "content": answer["content"].removesuffix(".")}

    return Asked(request, dialect, longer, without_the_token)


def _continued_off(request, dialect, output):
    """D14: newlines that continue an answer with thinking off stay. A character in front keeps them in the peer."""
    last = request["messages"][-1]
    if request.get("thinking") != {"type": "disabled"} or last["role"] != "assistant" or not output.text().startswith("\n"):
        return None
    led = Output(pieces=[_STAND_IN, *(output.pieces or [output.text()])], finish=output.finish)

    def without_the_lead(answer):
        return {**answer, "content": answer["content"].removeprefix(_STAND_IN)}

    return Asked(request, dialect, led, without_the_lead)


ANSWER_RULES = {
    "D1": _text_rule(_json_values),
    "D2": _text_rule(_string_attribute),
    "D3": _text_rule(_object_body),
    "D4": _text_rule(_mentioned_marker, _restore_marker),
    "D5": _text_rule(_nameless_calls),
    "D6": _opened_again,
    "D7": _json_surroundings,
    "D8": _text_rule(_second_block),
    "D9": _cut_character,
    "D14": _continued_off,
}


# --- which rule it is ------------------------------------------------------------------------------------------------


def rules_of_prompt(request, dialect, ours, peer):
    """Names of the rules that explain our prompt, given the side of the peer."""
    found = []
    for name, rule in PROMPT_RULES.items():
        asked = rule(request, dialect)
        if asked is None:
            continue
        try:
            prompt, _ = peer.encode(asked.request, asked.dialect)
        except Refused:
            continue
        if asked.edit_peer(prompt) == asked.edit_ours(ours):
            found.append(name)
    return found


def rules_of_answer(request, dialect, output, ours, peer_answer):
    """Names of the rules that explain our answer; peer_answer(request, dialect, output) asks the peer."""
    found = []
    for name, rule in ANSWER_RULES.items():
        asked = rule(request, dialect, output)
        if asked is None:
            continue
        theirs = asked.edit_peer(peer_answer(asked.request, asked.dialect, asked.output))
        if _with_read_arguments(theirs) == _with_read_arguments(ours):
            found.append(name)
    return found


def _with_read_arguments(answer):
    """Arguments as JSON: where a rule mends them, their blanks are not promised."""
    calls = []
    for call in answer["tool_calls"]:
        arguments = json.loads(call["arguments"]) if _is_json(call["arguments"]) else call["arguments"]
        calls.append({**call, "arguments": arguments})
    return {**answer, "tool_calls": calls}
