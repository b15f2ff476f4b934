#!/usr/bin/env python3
"""Our recipe beside the peer's, the PyPI package deepseek-recipe 0.2.0, on every vector of tests/data/chat.

    python tests/recipe_peer.py          (in an environment with deepinfer and the peer; `./build.sh test` makes one)

Prompts are compared as text and ids; answers as bodies and as joined events, with the output given as one text, as single
characters, as ids and id by id. What differs must have a rule of `recipe_rules.py` that explains it. Prints a table: vectors,
comparisons, equal, different by rule; exits with 1 where a difference has no rule.
"""

import collections
import dataclasses
import json
import sys
import tempfile

from recipe_rules import rules_of_answer, rules_of_prompt
from recipe_sides import DIALECTS, REPOSITORY, OurSide, Output, PeerSide, Refused, Speller, write_tokenizer

PLACE = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
OFFERED = [{"name": "get_weather", "parameters": PLACE}, {"name": "noop"}]
BIG_NUMBER = '{"n": 123456789012345678901234567890}'
CALL_OF_BIG_NUMBER = {"id": "c", "type": "function", "function": {"name": "noop", "arguments": BIG_NUMBER}}
CALL_WITH_OBJECT = {"id": "c", "type": "function", "function": {"name": "noop", "arguments": {"a": [1, "é"]}}}
STRICT_WITH_DEFINITIONS = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/d"}},
    "required": ["a"],
    "$defs": {"d": {"type": "string", "description": "letters", "minLength": 2}},
}

USER = {"role": "user", "content": "q"}
TOOLS = [{"type": "function", "function": tool} for tool in OFFERED]
STRICT_TOOL = {"type": "function", "function": {"name": "f", "strict": True, "parameters": STRICT_WITH_DEFINITIONS}}


def _called(call):
    result = {"role": "tool", "tool_call_id": "c", "content": "r"}
    return {"messages": [{"role": "assistant", "content": "", "tool_calls": [call]}, result]}


# Rules that no recorded prompt shows: a chat request, its rule.
MORE_PROMPTS = {
    "big integer": (_called(CALL_OF_BIG_NUMBER), "D10"),
    "developer": ({"messages": [{"role": "developer", "content": "s"}, USER]}, "D11"),
    "reasoning": ({"messages": [USER, {"role": "assistant", "content": "a", "reasoning": "r"}, USER], "tools": TOOLS}, "D11"),
    "object arguments": (_called(CALL_WITH_OBJECT), "D11"),
    "required": ({"messages": [USER], "tool_choice": "required", "tools": TOOLS}, "D12"),
    "named": ({"messages": [USER], "tool_choice": {"type": "function", "function": {"name": "noop"}}, "tools": TOOLS}, "D12"),
    "strict definitions": ({"messages": [USER], "tools": [STRICT_TOOL]}, "D13"),
}
# The same for answers: a chat request, a text, its rule.
CONTINUED = {"messages": [USER, {"role": "assistant", "content": "x", "prefix": True}], "thinking": {"type": "disabled"}}
MORE_ANSWERS = {"continued, thinking off": (CONTINUED, "\n\nand more", "D14")}


@dataclasses.dataclass
class Finding:
    """One comparison. rules: empty where equal; fault: what has no rule."""

    group: str
    vector: str
    form: str
    rules: list[str] = dataclasses.field(default_factory=list)
    fault: str = ""


def cases_of(name):
    return json.loads((REPOSITORY / "tests" / "data" / "chat" / f"{name}.json").read_text(encoding="utf-8"))["cases"]


def dialect_of(case):
    return DIALECTS[case.get("endpoint", "/v1/chat/completions")]


class Comparison:
    """Both sides over one tokenizer, and what they said."""

    def __init__(self, folder):
        path = write_tokenizer(folder)
        self.ours = OurSide(folder)
        self.peer = PeerSide(folder)
        self.speller = Speller(path)
        self.findings = []

    def run(self):
        self._prompts()
        self._prompts_v4()
        self._answers()
        self._events()
        return self.findings

    # --- prompts ---

    def _prompts(self):
        for name in ("encoding_v41", "encoding_protocols_v41", "request_errors"):
            for case in cases_of(name):
                self._prompt(name, case["id"], case["request"], dialect_of(case))
        for vector, (request, rule) in MORE_PROMPTS.items():
            self._prompt("more prompts", vector, request, "chat", rule)

    def _prompt(self, group, vector, request, dialect, rule=None):
        finding = Finding(group, vector, "prompt and ids")
        ours, theirs = self._encoded(self.ours, request, dialect), self._encoded(self.peer, request, dialect)
        if ours != theirs and ours is not None:
            finding.rules = rules_of_prompt(request, dialect, ours[0], self.peer)
        _judge(finding, ours, theirs, rule)
        self.findings.append(finding)

    @staticmethod
    def _encoded(side, request, dialect):
        try:
            return side.encode(request, dialect)
        except Refused:
            return None

    def _prompts_v4(self):
        """The module has no V4 encoder: the recorded prompts, to which a test of the library holds ours, stand for it."""
        for case in cases_of("encoding_v4"):
            finding = Finding("encoding_v4", case["id"], "recorded prompt")
            _judge(finding, case["prompt"], self.peer.encode_v4(case["request"]), None)
            self.findings.append(finding)

    # --- answers ---

    def _answers(self):
        for case in cases_of("stream_parser"):
            request = request_of_setup(case["setup"])
            finish = case["engine_finish"]
            outputs = {}
            if case["text"] is not None:
                outputs["text"] = Output(pieces=[case["text"]], finish=finish)
                outputs["characters"] = Output(pieces=list(case["text"]), finish=finish)
            if finish != "content_filter":  # an engine's ids do not end that way
                spelled = self.speller.text_of(case["token_ids"])
                outputs["ids"] = Output(token_ids=case["token_ids"], finish=finish, spelled=spelled)
            for form, output in outputs.items():
                self._answer("stream_parser", case["id"], form, request, output, case.get("deviation"))
        for vector, (request, text, rule) in MORE_ANSWERS.items():
            self._answer("more answers", vector, "text", request, Output(pieces=[text]), rule)

    def _answer(self, group, vector, form, request, output, rule):
        ours, theirs = self.ours.decode(request, "chat", output), self.peer.decode(request, "chat", output)
        compared = [
            ("body", answer_of(ours[0]), answer_of(theirs[0])),
            ("events", answer_of_events(ours[1]), answer_of_events(theirs[1])),
        ]
        if output.token_ids is not None:
            compared.append(("stream", answer_of_events(streamed(self.ours, request, "chat", output)), compared[1][2]))
        for how, our_answer, their_answer in compared:
            finding = Finding(group, vector, f"{form}, {how}")
            if our_answer != their_answer:
                finding.rules = rules_of_answer(request, "chat", output, our_answer, self._peer_answer)
            # A rule that the vector names need not show in every form: the peer's blanks for dropped text depend on the pieces.
            _judge(finding, our_answer, their_answer, rule if our_answer != their_answer else None)
            self.findings.append(finding)

    def _peer_answer(self, request, dialect, output):
        return answer_of(self.peer.decode(request, dialect, output)[0])

    # --- events ---

    def _events(self):
        for case in cases_of("protocol_events"):
            request, dialect, finish = case["request"], dialect_of(case), case["engine_finish"]
            text = "".join(case["output_chunks"])
            outputs = {"chunks": Output(pieces=case["output_chunks"], finish=finish)}
            if finish != "content_filter":
                outputs["ids"] = Output(token_ids=self.peer.ids_of(text), finish=finish, spelled=text)
            for form, output in outputs.items():
                ours, theirs = self.ours.decode(request, dialect, output), self.peer.decode(request, dialect, output)
                their_events = joined_events(split_usage(theirs[1]))
                compared = [("body", ours[0], theirs[0]), ("events", joined_events(ours[1]), their_events)]
                if output.token_ids is not None:
                    compared.append(("stream", joined_events(streamed(self.ours, request, dialect, output)), their_events))
                for how, left, right in compared:
                    finding = Finding("protocol_events", case["id"], f"{form}, {how}")
                    finding.fault = "; ".join(lacking(right, left, how))
                    self.findings.append(finding)


def streamed(side, request, dialect, output):
    """The events of an answer that is taken id by id, as an engine makes them."""
    answer = side.open(request, dialect)
    events = [event for token in output.token_ids for event in answer.take([token])]
    return events + answer.end(output.finish)


def _judge(finding, ours, theirs, rule):
    if ours == theirs and rule is None:
        return
    if not finding.rules:
        finding.fault = f"no rule: ours {ours!r:.600}, peer {theirs!r:.600}"
    elif rule is not None and finding.rules != [rule]:
        finding.fault = f"explained by {finding.rules}, expected {rule}"


def request_of_setup(setup):
    """A request whose answer starts and is parsed as a parser vector says."""
    start = setup["start"]
    request = {"messages": [{"role": "user", "content": "Reply in JSON."}]}
    request["thinking"] = {"type": "disabled" if start in ("content_new", "tool_calls") else "enabled"}
    if setup["parse_tool_calls"]:
        request["tools"] = [{"type": "function", "function": tool} for tool in OFFERED]
    if setup["json_object"]:
        request["response_format"] = {"type": "json_object"}
    if setup["stop"]:
        request["stop"] = setup["stop"]
    if start == "tool_calls":
        request["tool_choice"] = "required"
    elif start == "content_continued":
        request["messages"].append({"role": "assistant", "content": "x", "prefix": True})
    elif start == "reasoning_continued":
        request["messages"].append({"role": "assistant", "content": "", "reasoning_content": "x", "prefix": True})
    return request


# --- answers of Chat Completions ------------------------------------------------------------------------------------------


def answer_of(body):
    choice = body["choices"][0]
    message = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls") or []]
    return {
        "reasoning": message.get("reasoning_content") or "",
        "content": message.get("content") or "",
        "tool_calls": [{"name": call["name"], "arguments": call["arguments"]} for call in calls],
        "finish_reason": choice["finish_reason"],
    }


def answer_of_events(events):
    answer = {"reasoning": "", "content": "", "tool_calls": [], "finish_reason": None}
    for _, data in events:
        for choice in data["choices"] if data != "[DONE]" else []:
            delta = choice["delta"]
            answer["reasoning"] += delta.get("reasoning_content") or ""
            answer["content"] += delta.get("content") or ""
            for call in delta.get("tool_calls") or []:
                if call.get("id"):
                    answer["tool_calls"].append({"name": call["function"]["name"], "arguments": ""})
                answer["tool_calls"][call["index"]]["arguments"] += call["function"]["arguments"]
            answer["finish_reason"] = choice["finish_reason"] or answer["finish_reason"]
    return answer


# --- events of the three protocols ----------------------------------------------------------------------------------------

# Not compared: random ids and times; sequence numbers, which depend on how text is cut; `store`, which is on here unless a
# client says no; token counts of outputs (by id and with the end token here; the peer counts what its caller feeds, which is
# without it); and the peer's `encrypted_content` of reasoning.
NOT_COMPARED = {
    *("id", "call_id", "item_id", "created", "created_at", "completed_at", "sequence_number", "store", "encrypted_content"),
    *("completion_tokens", "output_tokens", "total_tokens", "reasoning_tokens"),
}


def lacking(wanted, given, path):
    """What the first value says and the second does not."""
    if isinstance(wanted, dict) and isinstance(given, dict):
        faults = [f"{path}.{key} is absent" for key in wanted if key not in given and key not in NOT_COMPARED]
        for key in wanted:
            if key in given and key not in NOT_COMPARED:
                faults += lacking(wanted[key], given[key], f"{path}.{key}")
        return faults
    if isinstance(wanted, list) and isinstance(given, list) and len(wanted) == len(given):
        return [fault for i, pair in enumerate(zip(wanted, given)) for fault in lacking(*pair, f"{path}[{i}]")]
    if isinstance(wanted, tuple) and isinstance(given, tuple):
        return lacking(list(wanted), list(given), path)
    return [] if wanted == given else [f"{path}: peer {wanted!r:.300}, ours {given!r:.300}"]


def split_usage(events):
    """The peer puts the usage of a chat stream on the last chunk; ours has a chunk of its own, as the protocol says."""
    result = []
    for name, data in events:
        usage = data.get("usage") if isinstance(data, dict) and "choices" in data else None
        if usage is None:
            result.append((name, data))
        else:
            result += [(name, {**data, "usage": None}), (name, {**data, "choices": []})]
    return result


def _text_place(data):
    """(holder, key) of the piece of text that an event brings, or None."""
    if not isinstance(data, dict):
        return None
    if "choices" in data:
        choice = data["choices"][0] if data["choices"] else {"delta": {"role": ""}, "finish_reason": None}
        delta = choice["delta"]
        if choice["finish_reason"] is not None or "role" in delta:
            return None
        calls = delta.get("tool_calls")
        if calls:
            return None if calls[0].get("id") else (calls[0]["function"], "arguments")
        return next(((delta, key) for key in ("content", "reasoning_content") if delta.get(key) is not None), None)
    if isinstance(data.get("delta"), str):
        return data, "delta"
    delta = data.get("delta") or {}
    return next(((delta, key) for key in ("thinking", "text", "partial_json") if delta.get(key) is not None), None)


def joined_events(events):
    """Neighbouring pieces of one thing, joined."""
    result = []
    last_shape = None
    for name, original in events:
        data = json.loads(json.dumps(original))
        place = _text_place(data)
        shape = None
        if place:
            holder, key = place
            text, holder[key] = holder[key], ""
            shape = json.dumps({**data, "sequence_number": 0, "usage": None})
            holder[key] = text
        if shape is not None and shape == last_shape:
            holder, key = _text_place(result[-1][1])
            holder[key] += text
        else:
            result.append((name, data))
        last_shape = shape
    return result


# --- report ------------------------------------------------------------------------------------------------------------------


def table_of(findings):
    """Lines of the table."""
    groups = collections.defaultdict(list)
    for finding in findings:
        groups[finding.group].append(finding)
    lines = [f"{'vectors of':<24}{'vectors':>8}{'compared':>10}{'equal':>8}{'no rule':>9}  vectors that differ, by rule"]
    for group, members in groups.items():
        by_rule = collections.defaultdict(set)
        for finding in members:
            for rule in finding.rules:
                by_rule[rule].add(finding.vector)
        equal = sum(not finding.rules and not finding.fault for finding in members)
        faults = sum(bool(finding.fault) for finding in members)
        rules = ", ".join(f"{rule}: {len(by_rule[rule])}" for rule in sorted(by_rule, key=lambda rule: (len(rule), rule)))
        vectors = len({finding.vector for finding in members})
        lines.append(f"{group:<24}{vectors:>8}{len(members):>10}{equal:>8}{faults:>9}  {rules}".rstrip())
    return lines


def main():
    with tempfile.TemporaryDirectory() as folder:
        findings = Comparison(folder).run()
    print("\n".join(table_of(findings)))
    faults = [finding for finding in findings if finding.fault]
    for finding in faults:
        print(f"{finding.group} {finding.vector} ({finding.form}): {finding.fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
