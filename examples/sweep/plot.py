#!/usr/bin/env python3
"""Draws tokens/s against tokens/s per user from the JSON of `deepinfer bench sweep --json` or of sweep.py.

    build/deepinfer bench sweep --json > sweep.json
    python examples/sweep/plot.py sweep.json --out sweep.png

Solid: measured. Dotted: as if every verified draft had been accepted, a convention that is no measurement.
"""

import argparse
import json
import pathlib
import sys


def import_pyplot():
    try:
        import matplotlib
    except ImportError:
        sys.exit("error: no module matplotlib, expected it installed: pip install matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def read_variants(path):
    """{name: sweep} of either kind of file."""
    try:
        content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        sys.exit(f"error: {path}: {error}")
    if isinstance(content, dict) and content.get("benchmark") == "sweep":
        return {pathlib.Path(path).stem: content}
    if isinstance(content, dict) and isinstance(content.get("variants"), dict):
        return content["variants"]
    sys.exit(f"error: {path}: neither the output of bench sweep --json nor of sweep.py")


def draw_line(axes, points, label, **style):
    user = [point["tokens_per_s_per_user"] for point in points]
    total = [point["output_tokens_per_s"] for point in points]
    return axes.plot(user, total, label=label, **style)[0]


def draw(variants, out):
    pyplot = import_pyplot()
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name, sweep in variants.items():
        points = sorted(sweep["points"], key=lambda point: point["concurrency"])
        line = draw_line(axes, points, name, marker="o")
        for point in points:
            axes.annotate(
                str(point["concurrency"]), (point["tokens_per_s_per_user"], point["output_tokens_per_s"]),
                textcoords="offset points", xytext=(5, 5), fontsize=8,
            )
        if any(point["acceptance"]["rounds"] for point in points):
            convention = [point["all_drafts_accepted"] for point in points]
            draw_line(
                axes, convention, f"{name}, not measured: all drafts accepted", marker=".", linestyle=":",
                color=line.get_color(), alpha=0.6,
            )
    axes.set_xlabel("tokens/s of one user (median)")
    axes.set_ylabel("tokens/s of all")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    axes.set_title("numbers at the points: requests in flight", fontsize=9)
    figure.tight_layout()
    try:
        figure.savefig(out)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {out}: {error}")
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", nargs="+", help="JSON files")
    parser.add_argument("--out", required=True, help="picture to write; its ending says the format")
    arguments = parser.parse_args()
    variants = {}
    for path in arguments.sweep:
        for name, sweep in read_variants(path).items():
            variants[name if name not in variants else f"{path}: {name}"] = sweep
    draw(variants, arguments.out)


if __name__ == "__main__":
    main()
