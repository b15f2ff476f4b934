#!/usr/bin/env python3
"""Fails when a folder of src/ includes what its line of the table does not name, or when a library's
header stands outside the folder that wraps it. The table is the "Tree and direction" part of the style page."""

import re
import sys

from source_files import CPP_SUFFIXES, ROOT, code_files

# What a folder may include besides itself and base. `model` names what a line of the table implies through a
# folder that it may use: model.h shows backend, tensor and weights to those that include it.
MAY_INCLUDE = {
    "base": set(),
    "tensor": set(),
    "weights": {"tensor"},
    "backend": {"tensor"},
    "net": {"tensor"},
    "kv": {"backend", "tensor", "net"},
    "model": {"backend", "tensor", "weights", "net"},
    "engine": {"model", "kv", "net", "backend", "tensor"},
    "text": {"tensor"},
    "http": set(),
    "api": {"text"},
    "session": {"api", "text", "engine"},
    "server": {"session", "api", "http", "text", "engine"},
    "c_abi": None,  # anything
}

# The only places of a library (dependencies page): header prefix -> path patterns.
WRAPPED = {
    r"nlohmann/": r"^(src/(api|text|weights|server)/.*\.cpp|apps/.*|tests/.*|fuzz/.*|src/.*_test\.cpp)$",
    r"CLI/": r"^apps/.*",
    r"pcre2\.h": r"^src/text/pretokenizer\.cpp$",
    r"jinja/": r"^src/text/jinja_template\.cpp$",
    r"utf8proc\.h": r"^src/text/unicode\.cpp$",
    r"(turbojpeg|png|webp/.*)\.h": r"^src/text/image\.cpp$",
    r"spdlog/": r"^src/base/log\.cpp$",
    r"(boost/|openssl/)": r"^src/(http|base)/.*\.cpp$",
    r"zlib\.h": r"^src/http/.*\.cpp$",
    r"prometheus/": r"^src/base/metrics\.cpp$",
    r"sqlite3\.h": r"^src/server/response_database\.cpp$",
    r"hwy/": r"^(src/backend/cpu|bench)/.*",
    r"nanobind/": r"^python/.*",
    r"benchmark/": r"^bench/.*",
    r"iostream": r"^(tests|bench)/.*",
}

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def faults_of(path):
    text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
    is_test = path.name.endswith("_test.cpp")
    folder = path.parts[1] if path.parts[0] == "src" else None
    if folder is not None and folder not in MAY_INCLUDE:
        yield f"{path}: the folder src/{folder} is not in the table of tools/check_layers.py"
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        bracket, header = match.groups()
        for library, places in WRAPPED.items():
            if re.match(library, header) and not re.match(places, path.as_posix()):
                yield f"{path}:{number}: <{header}> may be included only where {places} matches"
        if bracket == '"' and header.startswith(".."):
            yield f'{path}:{number}: "{header}": paths are relative to src/'
        if folder is None or bracket != '"' or "/" not in header:
            continue
        target = header.split("/")[0]
        allowed = MAY_INCLUDE[folder]
        if allowed is None or target in (folder, "base") or target in allowed:
            continue
        if target not in MAY_INCLUDE:
            continue  # third-party or test support, not a folder of ours
        names = ", ".join(sorted(allowed)) or "nothing else"
        # Tests may use the files of the layer below their layer's neighbours only through their own folder.
        kind = "a test of src/" if is_test else "src/"
        yield f'{path}:{number}: {kind}{folder} includes "{header}"; it may include base and {names}'


def main():
    faults = [fault for path in code_files(frozenset(CPP_SUFFIXES)) for fault in faults_of(path)]
    for fault in faults:
        print(fault)
    print(f"layers: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
