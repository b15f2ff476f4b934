"""so_args: what an answer must look like, from Python."""

import json
import pathlib
import re

import pytest

from deepinfer import LLM, SamplingParams

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models" / "v41-mini"
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 130}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def llm():
    with LLM(str(MODEL), max_model_len=512) as made:
        yield made


def test_answers_follow_schema_regex_and_choice_beside_free_ones(llm):
    wanted = [
        {"schema_type": "json", "schema": SCHEMA},
        {"schema_type": "json", "schema": json.dumps(SCHEMA)},
        {"schema_type": "regex", "schema": "[0-9]{2}:[0-9]{2}"},
        {"schema_type": "choice", "schema": ["yes", "no"]},
        {"schema_type": "ebnf", "schema": 'root ::= "a" "b"*'},
        None,
    ]
    params = [SamplingParams(temperature=1.0, seq_seed=3, max_tokens=60, so_args=so_args) for so_args in wanted]
    answers = llm.generate(["<｜User｜>Tell me.<｜Assistant｜></think>"] * len(wanted), params, use_tqdm=False)
    assert len(answers) == len(wanted)
    for text in answers[:2]:
        assert set(json.loads(text)) == {"name", "age"}
    assert re.fullmatch("[0-9]{2}:[0-9]{2}", answers[2])
    assert answers[3] in ("yes", "no")
    assert re.fullmatch("ab*", answers[4])


def test_a_bad_schema_ends_its_request_alone(llm):
    params = [
        SamplingParams(temperature=0.0, max_tokens=5, so_args={"schema_type": "json", "schema": '{"$ref": "other.json#/x"}'}),
        SamplingParams(temperature=0.0, max_tokens=5),
    ]
    answers = llm.generate(["Once", "Once"], params, use_tqdm=False)
    assert "other.json" in answers[0].error.message
    assert answers[0] == "" and answers[1] != ""


@pytest.mark.parametrize(
    "so_args, text",
    [
        ({"schema_type": "xml", "schema": ""}, "schema_type"),
        ({"schema_type": "json", "schema": "{}", "shema": 1}, "unknown key"),
        ({"schema_type": "regex", "schema": "a", "bound_token_id": 3}, "without trigger_token_ids"),
        ("json", "expected a dict"),
    ],
)
def test_wrong_so_args_are_named(so_args, text):
    with pytest.raises(ValueError, match=text):
        SamplingParams(so_args=so_args)
