#!/usr/bin/env python3
"""What loading and memory cost, and what the fast backend gains.

    python3 bench/cost.py [path of the deepinfer program]

Prints, each as the median of five runs:
- ready time of a 2 GiB dummy checkpoint (start, load, one forward pass of one token) beside reading 2 GiB from the page cache;
- peak memory of a decode of the embedded model beside the plan that `inspect` prints;
- decode speed of the embedded model on `cpu` beside `ref`.
"""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "deepinfer")
DUMMY = os.path.join(ROOT, "bench", "dummy-2g")
MINI = os.path.join(ROOT, "models", "v41-mini")
RUNS = 5


def run(*args):
    return subprocess.run([PROGRAM, *args], check=True, capture_output=True, text=True).stdout


def timed(call):
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def read_time(size):
    """Seconds to read `size` bytes of a file that the page cache holds."""
    with tempfile.NamedTemporaryFile(dir=ROOT) as file:
        block = os.urandom(1 << 20)
        for _ in range(size >> 20):
            file.write(block)
        file.flush()

        def read():
            with open(file.name, "rb", buffering=0) as reader:
                buffer = bytearray(1 << 22)
                while reader.readinto(buffer):
                    pass

        return timed(read)


def peak_memory(*args):
    """Peak resident bytes of the program."""
    command = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); " \
              "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)"
    out = subprocess.run([sys.executable, "-c", command, PROGRAM, *args], check=True, capture_output=True, text=True).stdout
    return int(out)


def main():
    plan = json.loads(run("inspect", DUMMY, "--json"))
    size = plan["weights"]["bytes"]
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "logits.safetensors")
        ready = timed(lambda: run("logits", "--model", DUMMY, "--load-format", "dummy", "--max-model-len", "512", "--tokens", "1", "--out", out))
    reading = read_time(size)
    print(f"ready    {ready:.2f} s for a dummy checkpoint of {size / 2**30:.2f} GiB; reading as much from the page cache {reading:.2f} s; "
          f"ratio {ready / reading:.2f}")

    limits = ["--max-model-len", "1024", "--max-num-seqs", "4", "--max-num-batched-tokens", "256"]
    plan = json.loads(run("inspect", MINI, "--json", *limits))["memory_plan"]["total_bytes"]
    peak = peak_memory("run", "Once upon a time", "--model", MINI, "--max-tokens", "200", "--seed", "1", *limits)
    base = peak_memory("doctor")
    print(f"memory   peak {peak / 2**20:.1f} MiB, plan {plan / 2**20:.1f} MiB, program without a model {base / 2**20:.1f} MiB; "
          f"(peak - program) / plan {(peak - base) / plan:.2f}")

    speed = {}
    for backend in ("cpu", "ref"):
        result = json.loads(run("bench", "latency", "--json", "--model", MINI, "--backend", backend, "--prompt-tokens", "32", "--output-tokens", "32"))
        speed[backend] = result["decode"]["tokens_per_s"]
    print(f"decode   cpu {speed['cpu']:.1f} tokens/s, ref {speed['ref']:.1f} tokens/s; ratio {speed['cpu'] / speed['ref']:.1f}")


if __name__ == "__main__":
    main()
