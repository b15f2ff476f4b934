#!/usr/bin/env python3
"""Runs `deepinfer bench sweep` for one or more variants of the engine, in turn, and keeps the median of each point.

    python examples/sweep/sweep.py --out sweep.json --variant "drafts:" --variant "no drafts:--drafts 0"
    python examples/sweep/sweep.py --out sweep.json --plot sweep.png -- --input-len 512 --output-len 256

A variant is NAME:FLAGS. What stands behind `--` goes to every run. The rounds are interleaved (each variant once, then
each again), so that a machine whose speed drifts is the same for all of them.
"""

import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(REPOSITORY / "build" / "deepinfer"))
    parser.add_argument("--model", help="default: what the program takes without --model")
    parser.add_argument("--concurrency", default="1,4,16")
    parser.add_argument("--variant", action="append", help='"NAME:FLAGS", may be repeated (default "default:")')
    parser.add_argument("--rounds", type=int, default=3, help="runs of each variant (default 3)")
    parser.add_argument("--out", required=True, help="JSON file to write")
    parser.add_argument("--plot", help="picture to draw with plot.py; needs matplotlib")
    arguments, flags = split_flags(parser)
    if arguments.rounds < 1:
        parser.error(f"--rounds: {arguments.rounds}, expected 1 or more")
    variants = {}
    for text in arguments.variant or ["default:"]:
        name, colon, variant_flags = text.partition(":")
        if not colon or not name or name in variants:
            parser.error(f'--variant: "{text}", expected NAME:FLAGS with a new name')
        variants[name] = shlex.split(variant_flags)
    return arguments, variants, flags


def split_flags(parser):
    """Our arguments, and those behind `--`."""
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    return parser.parse_args(words[:cut]), words[cut + 1 :]


def run_sweep(arguments, flags):
    command = [arguments.program, "bench", "sweep", "--json", "--concurrency", arguments.concurrency]
    if arguments.model:
        command += ["--model", arguments.model]
    done = subprocess.run([*command, *flags], stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"error: {shlex.join([*command, *flags])} ended with {done.returncode}")
    return json.loads(done.stdout)


def median_sweep(sweeps):
    """Of each point the run with the median of tokens/s: its other figures belong together."""
    middle = dict(sweeps[0])
    middle["points"] = []
    for runs in zip(*(sweep["points"] for sweep in sweeps)):
        speeds = [run["output_tokens_per_s"] for run in runs]
        chosen = min(runs, key=lambda run: abs(run["output_tokens_per_s"] - statistics.median_low(speeds)))
        middle["points"].append({**chosen, "output_tokens_per_s_of_rounds": speeds})
    return middle


def print_table(variants):
    (first, base), *others = variants.items()
    for name, sweep in variants.items():
        print(name)
        for point, base_point in zip(sweep["points"], base["points"]):
            length = point["acceptance"]["mean_accepted_length"]
            line = (
                f"  {point['concurrency']:>5} in flight: {point['output_tokens_per_s']:>8.1f} tokens/s, "
                f"{point['tokens_per_s_per_user']:>7.1f} a user, accepted length {'-' if length is None else f'{length:.2f}'}"
            )
            if others and name != first:
                line += f", {point['output_tokens_per_s'] / base_point['output_tokens_per_s']:.3f} of {first}"
            print(line)


def main():
    arguments, variants, flags = parse_arguments()
    if arguments.plot:
        from plot import import_pyplot  # at once, and not after an hour of measuring

        import_pyplot()
    sweeps = {name: [] for name in variants}
    for _ in range(arguments.rounds):
        for name, variant_flags in variants.items():
            sweeps[name].append(run_sweep(arguments, [*flags, *variant_flags]))
    result = {"variants": {name: median_sweep(runs) for name, runs in sweeps.items()}}
    pathlib.Path(arguments.out).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print_table(result["variants"])
    if arguments.plot:
        from plot import draw

        draw(result["variants"], arguments.plot)


if __name__ == "__main__":
    main()
