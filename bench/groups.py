"""Eight folds of leave-one-device-out by two ranks: side by side in groups of one rank, beside one network after the
other by one group of both ranks, and beside one rank alone.
    groups.py FORECOST [--devices 8] [--samples 100] [--epochs 20] [--batch N] [--rounds 3]
Times are those of the training alone, as its progress tells them. The three take turns, and the best round of each counts: a
neighbour only ever slows one down."""
import argparse
import os
import pathlib
import re
import subprocess
import tempfile

DEVICES = ["k80", "p100", "v100", "t4", "a100-40gb", "h100", "gtx-1080-ti", "m60", "p4", "l4", "k40", "mi100"]
SWEEP = """
[sweep]
name = "groups"
[[dense]]
samples = {samples}
batch = {{min = 1, max = 128, scale = "log"}}
in_features = {{min = 8, max = 4096, scale = "log"}}
out_features = {{min = 8, max = 4096, scale = "log"}}
passes = ["forward", "backward_data", "backward_weights"]
"""
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60}

parser = argparse.ArgumentParser()
parser.add_argument("forecost")
parser.add_argument("--devices", type=int, default=8)
parser.add_argument("--samples", type=int, default=100, help="layers")
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--batch", type=int)
parser.add_argument("--rounds", type=int, default=3)
arguments = parser.parse_args()
environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{command}\n{done.stdout}{done.stderr}")
    return done


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    (folder / "sweep.toml").write_text(SWEEP.format(samples=arguments.samples))
    corpora = []
    for device in DEVICES[:arguments.devices]:
        run(arguments.forecost, "collect", folder / "sweep.toml", "-o", folder / device, "--backend", "replay", "--replay",
            f"{device}:noise=0.05")
        corpora.append(folder / device / "corpus.h5")
    batch = ["--batch", arguments.batch] if arguments.batch else []
    train = [arguments.forecost, "evaluate", "--leave-one-device-out", *corpora, "--json", "--epochs", arguments.epochs, *batch]
    ways = {"one rank": train,
            "two ranks, one group of 2": ["mpirun", "-n", 2, *train, "--ranks-per-model", 2],
            "two ranks, two groups of 1": ["mpirun", "-n", 2, *train, "--ranks-per-model", 1]}
    best = {}
    for _ in range(arguments.rounds):
        for way, command in ways.items():
            told = re.search(r"took ([\d.]+) (us|ms|s|min)", run(*command).stderr)
            seconds = float(told[1]) * UNITS[told[2]]
            best[way] = min(seconds, best.get(way, seconds))
for way, seconds in best.items():
    print(f"{way:28} {seconds:7.2f} s   {best['one rank'] / seconds:.2f} of one rank's speed")
print(f"groups side by side / one after another: {best['two ranks, one group of 2'] / best['two ranks, two groups of 1']:.2f}")
