"""Outputs under a constraint, judged by validators that share nothing with ours: jsonschema, re, and a small recogniser
of written grammars. The outputs come from the test program structured_output_test."""

import json
import os
import pathlib
import re
import subprocess

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = json.loads((ROOT / "tests" / "data" / "grammar_cases.json").read_text())
PROGRAM = pathlib.Path(os.environ.get("DEEPINFER_PROGRAM", ROOT / "build" / "deepinfer")).resolve()


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    path = tmp_path_factory.mktemp("grammar") / "outputs.jsonl"
    program = PROGRAM.parent / "structured_output_test"
    run = subprocess.run(
        [program, "--gtest_filter=*ForEveryCase*"],
        cwd=ROOT,
        env={**os.environ, "DEEPINFER_GRAMMAR_OUTPUTS": str(path)},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:]
    return [json.loads(line) for line in path.read_text().splitlines()]


def ascii_pattern(pattern):
    return re.compile(pattern, re.ASCII)


def check_pattern(validator, pattern, instance, schema):
    if validator.is_type(instance, "string") and not ascii_pattern(pattern).search(instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


# The standard's own rules, with classes in ASCII as in ECMA-262.
Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": check_pattern})

FORMATS = {
    "date": r"\d{4}-\d\d-\d\d",
    "time": r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)",
    "date-time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)",
    "email": r"[^@\s]+@[^@\s]+\.[a-z]+",
    "hostname": r"(?=.{1,253}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?",
    "uuid": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
}


def format_checker():
    import datetime
    import ipaddress
    import uuid

    checker = jsonschema.FormatChecker(formats=())
    parsers = {
        "date": datetime.date.fromisoformat,
        "ipv4": ipaddress.IPv4Address,
        "ipv6": ipaddress.IPv6Address,
        "uuid": uuid.UUID,
    }
    for name, parse in parsers.items():
        checker.checks(name, raises=ValueError)(lambda text, parse=parse: bool(parse(text)) or True)
    for name, pattern in FORMATS.items():
        if name not in parsers:
            checker.checks(name)(lambda text, pattern=pattern: re.fullmatch(pattern, text) is not None)
    return checker


def unique_members(pairs):
    # Members that are repeated would hide their first value from the validator; only maps may repeat a name.
    return dict(pairs)


# --- written grammars -------------------------------------------------------

TOKEN = re.compile(r'\s+|#[^\n]*|(?P<name>[A-Za-z_][\w.-]*)(?P<rule>\s*::=)?|(?P<text>"(?:\\.|[^"\\])*")|(?P<cls>\[(?:\\.|[^\]\\])*\])|(?P<sign>[()|*+?]|\{[^}]*\})')
CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}


def unescape(text):
    def one(match):
        code = match.group(1)
        if code[0] in "xuU" and len(code) > 1:
            return chr(int(code[1:], 16))
        return CONTROLS.get(code, code)

    return re.sub(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", one, text)


def parse_grammar(text):
    """name -> node; a node is ("alt", [..]), ("seq", [..]), ("rep", node, m, n), ("ref", name), ("text", s), ("class", regex)."""
    tokens, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        assert match, text[at:]
        at = match.end()
        if match.lastgroup or match.group("name"):
            kind = "rule" if match.group("rule") else next(k for k in ("name", "text", "cls", "sign") if match.group(k))
            tokens.append((kind, match.group("name") if kind == "rule" else match.group(kind)))
    rules, i = {}, 0

    def alternatives(i):
        options = []
        while True:
            items = []
            while i < len(tokens) and tokens[i][0] != "rule" and tokens[i][1] not in ("|", ")"):
                kind, value = tokens[i]
                if value == "(":
                    node, i = alternatives(i + 1)
                elif kind == "text":
                    node = ("text", unescape(value[1:-1]))
                elif kind == "cls":
                    node = ("class", re.compile(value, re.DOTALL))
                else:
                    node = ("ref", value)
                i += 1
                if i < len(tokens) and tokens[i][0] == "sign" and tokens[i][1][0] in "*+?{":
                    sign = tokens[i][1]
                    low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign, (0, 0))
                    if sign[0] == "{":
                        parts = sign[1:-1].split(",")
                        low = int(parts[0])
                        high = low if len(parts) == 1 else int(parts[1]) if parts[1].strip() else None
                    node = ("rep", node, low, high)
                    i += 1
                items.append(node)
            options.append(("seq", items))
            if i >= len(tokens) or tokens[i][1] != "|" or tokens[i][0] == "rule":
                return ("alt", options), i
            i += 1

    while i < len(tokens):
        name = tokens[i][1]
        rules[name], i = alternatives(i + 1)
    return rules


def matches_grammar(grammar, text):
    """All ends of a node from a place, to a fixed point because rules may be left-recursive."""
    rules = parse_grammar(grammar)
    ends = {}  # (rule, begin) -> set of ends
    changed = True

    def walk(node, begin):
        kind = node[0]
        if kind == "text":
            return {begin + len(node[1])} if text.startswith(node[1], begin) else set()
        if kind == "class":
            return {begin + 1} if begin < len(text) and node[1].fullmatch(text[begin]) else set()
        if kind == "alt":
            return set().union(*(walk(item, begin) for item in node[1]))
        if kind == "seq":
            places = {begin}
            for item in node[1]:
                places = set().union(*(walk(item, place) for place in places)) if places else places
            return places
        if kind == "rep":
            _, item, low, high = node
            reached, places, count = ({begin} if low == 0 else set()), {begin}, 0
            while places and (high is None or count < high):
                following = set().union(*(walk(item, place) for place in places))
                count += 1
                if count >= low:
                    if following <= reached and high is None:
                        break
                    reached |= following
                places = following
            return reached
        key = (node[1], begin)
        if key not in ends:
            ends[key] = set()
            mark()
        return set(ends[key])

    def mark():
        nonlocal changed
        changed = True

    walk(("ref", "root"), 0)
    while changed:
        changed = False
        for name, begin in list(ends):
            found = walk(rules[name], begin)
            if not found <= ends[(name, begin)]:
                ends[(name, begin)] |= found
                changed = True
    return len(text) in ends[("root", 0)]


# --- the tests --------------------------------------------------------------


def is_valid(case, output, checker):
    kind = case["kind"]
    if kind == "json":
        value = json.loads(output, object_pairs_hook=unique_members)
        return Validator(case["schema"], format_checker=checker).is_valid(value)
    if kind == "json_object":
        return isinstance(json.loads(output), dict)
    if kind == "regex":
        return ascii_pattern(re.sub(r"\(\?<(?=\w)", "(?P<", case["text"])).fullmatch(output) is not None
    if kind == "choice":
        return output in case["choices"]
    if kind == "structural_tag":
        return re.fullmatch(case["match"], output) is not None
    return matches_grammar(case["text"], output)


def test_recogniser_of_grammars_tells_right_from_wrong():
    grammar = 'root ::= root "+" n | n\nn ::= [0-9]{1,2} | "(" root ")"'
    assert matches_grammar(grammar, "1+(22+3)")
    assert not matches_grammar(grammar, "1+(22+3")
    assert not matches_grammar(grammar, "123")


def test_every_output_of_every_case_is_valid(outputs):
    cases = {case["name"]: case for case in CASES["good"]}
    assert len(cases) >= 300
    assert {output["name"] for output in outputs} == set(cases)
    checker = format_checker()
    wrong = [line for line in outputs if not is_valid(cases[line["name"]], line["output"], checker)]
    assert not wrong, "\n".join(f"{line['name']} ({line['vocabulary']}, seed {line['seed']}): {line['output'][:300]!r}" for line in wrong[:20])
    assert len(outputs) >= 4 * len(cases)
