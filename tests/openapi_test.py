"""The document at /openapi.json, and requests made from it, valid and not: no answer is a fault of the server, and every
status, type and body is one that the document names. The requests are the same each time (fixed seed)."""

import json
import subprocess
import sys

import pytest

from server_process import Server, request

# Other names of a route that is asked already, and routes whose bodies are those of another.
ASKED_ALREADY = [
    "/v1/tokenize",
    "/v1/detokenize",
    "/ping",
    "/ready",
    "/readyz",
    "/get_model_info",
    "/v1/loads",
    "/flush_cache",
    "/apply-template",
    "/v1/messages/count_tokens",
]
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "allow_header_conformance",
]


@pytest.fixture(scope="module")
def server():
    with Server("--max-output", "24", "--response-store", "200") as running:
        yield running


def references(value):
    if isinstance(value, dict):
        yield from ([value["$ref"]] if "$ref" in value else [])
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references(item)


def test_the_document_names_what_it_uses(server):
    status, headers, answer = request(server, "GET", "/openapi.json")
    assert (status, headers["content-type"]) == (200, "application/json")
    document = json.loads(answer)
    schemas = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(references(document)) <= schemas
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names)) > 30
    for operation in operations:
        assert all("content" in response for response in operation["responses"].values())
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"):
        operation = document["paths"][path]["post"]
        assert "text/event-stream" in operation["responses"]["200"]["content"]
        assert "$ref" in operation["requestBody"]["content"]["application/json"]["schema"]


def test_requests_made_from_the_document_get_answers_that_it_names(server, tmp_path):
    command = [sys.executable, "-m", "schemathesis.cli", "run", server.url + "/openapi.json", "--checks", ",".join(CHECKS)]
    command += ["--seed", "7", "--max-examples", "3", "--phases", "coverage,fuzzing", "--generation-database", "none"]
    command += ["--request-timeout", "60", "--warnings", "off", "--no-color", "--continue-on-failure"]
    command += [word for path in ASKED_ALREADY for word in ("--exclude-path", path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert request(server, "GET", "/health")[0] == 200
