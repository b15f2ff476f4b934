"""What `serve` compares before it listens, and tools/make_selftest.py, which writes it down."""

import json
import re
import subprocess
import sys

import pytest

from server_process import ROOT, Server

MINI = ROOT / "models" / "v41-mini"


def link_model(directory):
    for path in MINI.iterdir():
        if path.name != "selftest.json":
            (directory / path.name).symlink_to(path)


def test_the_file_is_made_from_the_goldens(tmp_path):
    link_model(tmp_path)
    subprocess.run([sys.executable, ROOT / "tools" / "make_selftest.py", tmp_path], check=True)
    assert (tmp_path / "selftest.json").read_text() == (MINI / "selftest.json").read_text()
    with Server("--model", str(tmp_path)):
        pass


@pytest.mark.parametrize("change,says", [
    (lambda file: file["token_ids"].__setitem__(5, 7), "token 5 is "),
    (lambda file: file["logprobs"].__setitem__(0, file["logprobs"][0] + 0.05), "token 0 has log-probability "),
    (lambda file: file["prompt_token_ids"].__setitem__(3, 300), "token "),
    (lambda file: file.pop("tolerance"), "selftest.json: expected a tolerance"),
])
def test_a_model_that_computes_something_else_is_not_served(tmp_path, change, says):
    link_model(tmp_path)
    golden = json.loads((MINI / "selftest.json").read_text())
    change(golden)
    (tmp_path / "selftest.json").write_text(json.dumps(golden))
    with pytest.raises(AssertionError, match=re.escape(f"self-test: {says}")):
        Server("--model", str(tmp_path))
    # What is to compute something else is not compared.
    with Server("--model", str(tmp_path), "--kv-quant", "off"):
        pass


@pytest.mark.parametrize("settings", [("--no-selftest",), ("--max-model-len", "48"), ("--load-format", "dummy"), ("--backend", "ref")])
def test_settings_that_compute_the_same_or_something_else_are_served(settings):
    with Server(*settings):
        pass
