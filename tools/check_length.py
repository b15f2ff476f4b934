#!/usr/bin/env python3
"""A file has one subject: at most 800 lines, a warning above 400. Data and generated files are not looked at."""

import sys

from source_files import ROOT, code_files

LINES_MAX = 800
LINES_WARNING = 400


def main():
    too_long = 0
    for path in code_files():
        with open(ROOT / path, encoding="utf-8", errors="replace") as file:
            lines = sum(1 for _ in file)
        if lines > LINES_MAX:
            too_long += 1
            print(f"{path}: {lines} lines, at most {LINES_MAX} are allowed")
        elif lines > LINES_WARNING:
            print(f"{path}: warning: {lines} lines, expected at most {LINES_WARNING}")
    print(f"length: {too_long} faults")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
