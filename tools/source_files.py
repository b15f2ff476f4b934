"""The files that the style programs look at. Paths are relative to the repository root."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Folders that hold code of ours; data and build output are not among them.
CODE_FOLDERS = ("src", "apps", "python", "include", "tests", "fuzz", "bench", "examples", "tools", "cmake")
CODE_SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".py", ".pyi", ".sh", ".cmake"}
CPP_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}


def all_files():
    """Every file that git tracks or would add, so that ignored build output is never looked at."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        names = [name for name in listed.stdout.decode().split("\0") if name]
    else:  # an unpacked archive without git
        names = [
            os.path.relpath(os.path.join(folder, name), ROOT)
            for folder, folders, files in os.walk(ROOT)
            if not folders.sort() and "build" not in pathlib.Path(folder).relative_to(ROOT).parts[:1]
            for name in files
        ]
    return sorted(path for path in map(pathlib.Path, names) if (ROOT / path).is_file())


def code_files(suffixes=frozenset(CODE_SUFFIXES)):
    """Code of ours with one of the suffixes."""
    return [path for path in all_files() if path.parts[0] in CODE_FOLDERS and path.suffix in suffixes and "data" not in path.parts]
