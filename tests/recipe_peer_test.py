"""Our recipe and the peer's (PyPI deepseek-recipe 0.2.0) on every recorded vector: equal, or different where a rule says so."""

import importlib.metadata

import pytest

from recipe_peer import Comparison, Output, answer_of, cases_of, joined_events, lacking, request_of_setup, table_of
from recipe_rules import rules_of_answer, rules_of_prompt

RULES = {f"D{number}" for number in range(1, 15)}


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    assert importlib.metadata.version("deepseek-recipe") == "0.2.0"
    compared = Comparison(tmp_path_factory.mktemp("tokenizer"))
    compared.run()
    return compared


def findings_of(comparison, group):
    return [finding for finding in comparison.findings if finding.group == group]


def test_every_vector_is_equal_or_explained(comparison):
    print("\n".join(table_of(comparison.findings)))
    faults = [finding for finding in comparison.findings if finding.fault]
    assert not faults, "\n".join(f"{fault.group} {fault.vector} ({fault.form}): {fault.fault}" for fault in faults)


def test_every_vector_was_compared(comparison):
    prompts = ("encoding_v41", "encoding_protocols_v41", "encoding_v4", "request_errors")
    for group in (*prompts, "stream_parser", "protocol_events"):
        assert {finding.vector for finding in findings_of(comparison, group)} == {case["id"] for case in cases_of(group)}


def test_every_rule_shows_and_each_difference_has_one(comparison):
    assert {rule for finding in comparison.findings for rule in finding.rules} == RULES | {"strict", "format", "n"}
    assert all(len(finding.rules) <= 1 for finding in comparison.findings)


def test_recorded_deviations_are_those_that_show(comparison):
    recorded = {case["id"]: case["deviation"] for case in cases_of("stream_parser") if "deviation" in case}
    shown = {finding.vector: finding.rules[0] for finding in findings_of(comparison, "stream_parser") if finding.rules}
    assert shown == recorded


def test_the_peer_is_the_recorded_one(comparison):
    for case in cases_of("encoding_v41"):
        prompt, ids = comparison.peer.encode(case["request"], "chat")
        assert (prompt, ids) == (case["prompt"], case["prompt_ids"]), case["id"]
    for case in cases_of("stream_parser"):
        if case["text"] is not None:
            output = Output(pieces=[case["text"]], finish=case["engine_finish"])
            answer = answer_of(comparison.peer.decode(request_of_setup(case["setup"]), "chat", output)[0])
            assert answer == case.get("reference", case["expect"]), case["id"]


def test_a_wrong_answer_has_no_rule(comparison):
    """Each vector that differs, with our answer spoilt: no rule may explain it."""
    for case in cases_of("stream_parser"):
        if "deviation" in case and case["text"] is not None:
            request, output = request_of_setup(case["setup"]), Output(pieces=[case["text"]], finish=case["engine_finish"])
            answer = answer_of(comparison.ours.decode(request, "chat", output)[0])
            peer_answer = lambda *asked: answer_of(comparison.peer.decode(*asked)[0])  # noqa: E731
            assert rules_of_answer(request, "chat", output, answer, peer_answer) == [case["deviation"]], case["id"]
            for spoil in ({"content": answer["content"] + "."}, {"reasoning": "."}, {"finish_reason": "length"}):
                spoilt = {**answer, **spoil}
                assert rules_of_answer(request, "chat", output, spoilt, peer_answer) == [], case["id"]


def test_a_wrong_prompt_has_no_rule(comparison):
    for name in ("encoding_protocols_v41", "request_errors"):
        for finding in findings_of(comparison, name):
            if finding.rules:
                case = next(case for case in cases_of(name) if case["id"] == finding.vector)
                dialect = "chat" if "chat" in case["endpoint"] else case["endpoint"].removeprefix("/v1/")
                prompt, _ = comparison.ours.encode(case["request"], dialect)
                assert rules_of_prompt(case["request"], dialect, prompt + " ", comparison.peer) == [], case["id"]


def test_events_that_lack_something_are_found():
    piece = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}
    more = {**piece, "delta": {"type": "text_delta", "text": "b"}}
    elsewhere = {**more, "index": 1}
    joined = joined_events([("x", piece), ("x", more), ("x", elsewhere)])
    assert [data["delta"]["text"] for _, data in joined] == ["ab", "b"]
    assert lacking(joined, joined, "event") == []
    assert lacking(joined, joined[:1], "event") and lacking([("x", piece)], [("x", more)], "event")
    assert lacking([("x", piece)], [("y", piece)], "event") and lacking({"a": 1}, {}, "event")
