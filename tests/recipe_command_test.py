"""`deepinfer recipe`, end to end: requests to prompts and outputs to answers, without a model."""

import json

from cli_test import REPOSITORY, deepinfer, error_of

REQUEST = {"messages": [{"role": "user", "content": "q"}]}


def recipe(what, value, *flags):
    return deepinfer("recipe", what, *flags, text=value if isinstance(value, str) else json.dumps(value))


def test_encode_gives_the_recorded_prompts():
    fixture = json.loads((REPOSITORY / "tests" / "data" / "chat" / "encoding_v41.json").read_text())
    for case in fixture["cases"][:5]:
        done = recipe("encode", case["request"])
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["prompt"] == case["prompt"]


def test_decode_gives_a_body_or_events(tmp_path):
    output = {"request": REQUEST, "text": "a</think>b", "id": "x", "created": 1}
    path = tmp_path / "output.json"
    path.write_text(json.dumps(output))
    done = deepinfer("recipe", "decode", "--input", path)
    assert done.returncode == 0 and done.stdout.endswith(b"}\n"), done.stderr
    assert json.loads(done.stdout)["choices"][0]["message"]["content"] == "b"
    done = recipe("decode", output, "--dialect", "messages", "--stream")
    assert done.returncode == 0, done.stderr
    names = [line for line in done.stdout.decode().splitlines() if line.startswith("event: ")]
    assert names[0] == "event: message_start" and names[-1] == "event: message_stop"
    assert done.stdout.endswith(b"}\n\n")


def test_errors_are_one_line():
    assert "messages[0].role" in error_of(recipe("encode", {"messages": [{"role": "x", "content": "q"}]}), 1)
    assert "JSON" in error_of(recipe("encode", "{"), 1)
    assert "token_ids" in error_of(recipe("decode", {"request": REQUEST}), 1)
    assert "encode or decode" in error_of(recipe("translate", REQUEST), 2)
    assert "--dialect" in error_of(recipe("encode", REQUEST, "--dialect", "x"), 2)
    assert "--stream" in error_of(recipe("encode", REQUEST, "--stream"), 2)
    assert error_of(recipe("encode", REQUEST, "--tokenizer", "nowhere"), 3)
