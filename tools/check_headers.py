#!/usr/bin/env python3
"""Every header compiles alone, so that including it needs no knowledge of what must come before.
Needs compile_commands.json of a build directory (first argument): the flags of any file of the
same folder are used. All headers of a folder go through one compiler call, each in its own source text."""

import json
import pathlib
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from source_files import ROOT, code_files


def flags_by_folder(build):
    """Include paths and definitions of the files of each folder, without output and source."""
    flags = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        if ROOT not in file.parents:
            continue
        words = shlex.split(entry["command"])
        kept = []
        skip = False
        for word in words[1:]:
            if skip:
                skip = False
            elif word in ("-o", "-c"):
                skip = True
            elif word.startswith(("-I", "-D", "-std=", "-W")) or word == "-isystem":
                kept.append(word)
            elif kept and kept[-1] == "-isystem":
                kept.append(word)
        folder = file.relative_to(ROOT).parent
        # A test's flags know GoogleTest and the test data; headers of tests need them.
        if folder not in flags or file.name.endswith("_test.cpp"):
            flags[folder] = kept
    return flags


def flags_for(folder, flags):
    while folder not in flags and folder.parts:
        folder = folder.parent
    if folder in flags:
        return flags[folder]
    return max(flags.values(), key=len) if flags else []


def compile_alone(header, flags):
    command = ["g++", *flags, "-fsyntax-only", "-Wno-unused-function", "-Wno-pragma-once-outside-header", "-x", "c++", "-"]
    # Twice: a header that may not be included twice is as broken as one that needs another first.
    source = f'#include "{ROOT / header}"\n#include "{ROOT / header}"\n'
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    return header, done.returncode, done.stderr


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release")
    if not (build / "compile_commands.json").exists():
        print(f"headers: {build}/compile_commands.json is missing, configure first")
        return 1
    flags = flags_by_folder(build)
    headers = [path for path in code_files(frozenset({".h"})) if "cuda" not in path.parts]
    faults = 0
    with ThreadPoolExecutor(max_workers=2) as pool:
        for header, code, errors in pool.map(lambda path: compile_alone(path, flags_for(path.parent, flags)), headers):
            if code != 0:
                faults += 1
                print(f"{header}: does not compile alone")
                print("\n".join(errors.splitlines()[:6]))
    print(f"headers: {len(headers)} compiled, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
