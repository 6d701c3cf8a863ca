"""How well times repeat: a small sample of every operator's space, each task measured twice in one run, the second
pass in another order after the first. `forecost collect` tells the median difference.
    repeat.py FORECOST [--samples 4] [--cores 1]"""
import argparse
import pathlib
import re
import subprocess
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("forecost")
parser.add_argument("--samples", type=int, default=4, help="layers of each block of configs/sweeps/full.toml")
parser.add_argument("--cores", type=int, default=1)
arguments = parser.parse_args()
sweep = (pathlib.Path(__file__).parent.parent / "configs" / "sweeps" / "full.toml").read_text()
sweep = re.sub(r"\[\[anchor\]\].*?(?=\n(?:#[^\n]*\n)*\[\[)", "", sweep, flags=re.S)
sweep = re.sub(r"samples = \d+\n(?!budget)", f"samples = {arguments.samples}\n", sweep.replace("min_samples", "MIN"))
sweep = sweep.replace("MIN", "min_samples").replace("[measure]", "[measure]\nreplicates = 2").replace('"full"', '"repeat"')
with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder) / "repeat.toml"
    file.write_text(sweep)
    subprocess.run([arguments.forecost, "collect", file, "-o", pathlib.Path(folder) / "run", "--backend", "cpu",
                    "--cores", str(arguments.cores)], check=True)
    subprocess.run([arguments.forecost, "corpus", "info", pathlib.Path(folder) / "run"], check=True)
