#!/usr/bin/env python3
"""Fails on what must not stand in the repository: machine paths, open ends without an issue, code that is
commented out by markers of editors, and files that are too big for it."""

import re
import sys

from source_files import ROOT, all_files

# Text files that are looked at; models and fixtures hold data, not words.
SKIPPED_FOLDERS = {"models", ".git"}
SKIPPED_PREFIXES = ("tests/data/", "fuzz/corpus/")
BYTES_MAX_ALL = 45 << 20

RULES = [
    (re.compile(r"(?<![\w./${}-])/(work|home|root|Users|mnt)/\w"), "a path of some machine; use one relative to the repository"),
    (re.compile(r"\.\./shared\b"), "a path outside the repository"),
    (re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))"), "an open end without an issue; write TODO(#12): text"),
    (re.compile(r"^(<<<<<<< |>>>>>>> |=======$)"), "a conflict marker"),
    (re.compile(r"[ \t]+$"), "blanks at the end of a line"),
]


def faults_of(path):
    try:
        text = (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, meaning in RULES:
            if pattern.search(line):
                yield f"{path}:{number}: {meaning}: {line.strip()[:100]}"


def main():
    paths = all_files()
    faults = []
    for path in paths:
        name = path.as_posix()
        if path.parts[0] in SKIPPED_FOLDERS or name.startswith(SKIPPED_PREFIXES) or name == "tools/check_words.py":
            continue
        faults.extend(faults_of(path))
    total = sum((ROOT / path).stat().st_size for path in paths)
    if total > BYTES_MAX_ALL:
        faults.append(f"the repository's files have {total} bytes, at most {BYTES_MAX_ALL} are allowed")
    for fault in faults:
        print(fault)
    print(f"words: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
