"""Configurations per hour of `forecost collect cnn` at a 1 % interval of the median, beside a plain PyTorch
loop over the same tasks, in the same order, with the same warm-up, stop rule and cache state.
    rate.py FORECOST [--sweep cnn] [--seconds 120] [--cores 1]
Forecost sweeps for the given time; then PyTorch gets the tasks that it finished. Cold operands of the loop are
evicted as a script can: by reading a buffer of twice the cache that the probe found."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

import torch

import torch_peer

parser = argparse.ArgumentParser()
parser.add_argument("forecost")
parser.add_argument("--sweep", default="cnn")
parser.add_argument("--seconds", type=float, default=120)
parser.add_argument("--cores", type=int, default=1)
arguments = parser.parse_args()
MIN_SAMPLES, MAX_SAMPLES, BUDGET_S, PRECISION, WARMUP_S, SHORT_S, BATCH_S = 10, 2000, 0.5, 0.01, 0.2, 50e-6, 1e-3


def forecost(*words):
    return subprocess.run([arguments.forecost, *map(str, words)], capture_output=True, text=True)


def task_text(row):
    """The layer as torch_peer reads it: what is no field of all operators is a parameter."""
    return " ".join([row["operator"], *(f"{name}={value}" for name, value in row.items() if name not in FIELDS)])


def measure(call, cold, flush):
    def run(n):
        begin = time.perf_counter()
        for _ in range(n):
            call()
        return time.perf_counter() - begin

    def sample(n=1):
        if cold:
            flush.sum()
        return run(n)
    times, begin = [sample()], time.perf_counter()
    while (len(times) < 3 or max(times[-3:]) - min(times[-3:]) > 0.05 * min(times[-3:])) and \
            time.perf_counter() - begin < WARMUP_S:
        times.append(sample())
    runs = 1
    if not cold and min(times) < SHORT_S:
        runs = max(1, round(BATCH_S / min(times)))
    samples, begin = [], time.perf_counter()
    while True:
        samples.append(sample(runs) / runs)
        n = len(samples)
        if time.perf_counter() - begin > BUDGET_S or n >= MAX_SAMPLES:
            return False
        # As seldom as Forecost looks: whenever there are 5 % more.
        if n >= MIN_SAMPLES and (n < 20 or n % (n // 20) == 0) and torch_peer.interval(samples) <= PRECISION:
            return True


with tempfile.TemporaryDirectory() as folder:
    run = pathlib.Path(folder) / "run"
    done = forecost("collect", arguments.sweep, "-o", run, "--backend", "cpu", "--cores", arguments.cores, "--time-limit",
                    arguments.seconds)
    print(done.stdout.strip())
    device = json.loads(forecost("devices", "--cores", arguments.cores, "--json").stdout)["devices"][0]
    rows = [json.loads(line) for line in forecost("corpus", "export", run, "--format", "jsonl", "-o", "-").stdout.splitlines()]
rows = sorted((row for row in rows if row["replicate"] == 0 and row["status"] == "ok"), key=lambda row: row["started_unix_s"])
# Columns of an export: operator, parameters, then the fields that all operators have.
FIELDS = set.intersection(*(set(row) for row in {row["operator"]: row for row in rows}.values())) - {"batch"}
precise = sum(row["stop_reason"] == "precise" for row in rows)
rate = float(re.search(r": ([\d,]+) configurations per hour", done.stdout)[1].replace(",", ""))

os.sched_setaffinity(0, device.get("processors") or range(arguments.cores))
torch.set_num_threads(arguments.cores)
torch.set_grad_enabled(False)
flush = torch.zeros(2 * 64 * 1024 * 1024 // 4)
begin, tried, met, impossible = time.perf_counter(), 0, 0, 0
for row in rows:
    if time.perf_counter() - begin > arguments.seconds:
        break
    try:
        call = torch_peer.call_of(row["pass"], row["optimizer"], task_text(row), row["dtype"])
        met += measure(call, row["cache_state"] == "cold", flush)
        tried += 1
    except (RuntimeError, NotImplementedError, KeyError):
        impossible += 1
torch_s = time.perf_counter() - begin
torch_rate = tried / torch_s * 3600
print(f"Forecost: {rate:,.0f} configurations per hour, {precise / len(rows):.0%} of {len(rows)} ok rows within 1 %")
print(f"PyTorch {torch.__version__}: {torch_rate:,.0f} per hour, {met / max(tried, 1):.0%} of {tried} within 1 % "
      f"({impossible} that it has no call for are left out)")
print(f"ratio {rate / torch_rate:.2f} (aim 2)")
