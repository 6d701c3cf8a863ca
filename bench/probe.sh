#!/usr/bin/env bash
# How repeatable `forecost probe` is: runs it several times, each in a process of its own, and prints
# for every figure the lowest, the median and the highest run, and how far apart they are.
#   bench/probe.sh [RUNS] [SECONDS] [options of forecost probe]     builds the preset `bench` first
# FORECOST=PROGRAM takes another program. The last column is (highest - lowest) / median; the aim is
# 5 % on a quiet machine. A figure that the probe itself called doubtful says how often.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
runs=${1:-5} seconds=${2:-40}
shift $(($# < 2 ? $# : 2))
if [ -z "${FORECOST:-}" ]; then
  cmake --preset bench >/dev/null
  cmake --build --preset bench --target forecost | tail -n 1
  FORECOST=build/bench/bin/forecost
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for run in $(seq "$runs"); do
  begin=$(date +%s.%N)
  "$FORECOST" probe --seconds "$seconds" "$@" -o "$folder/$run.toml" >/dev/null 2>&1
  awk -v run="$run" -v all="$runs" -v begin="$begin" -v end="$(date +%s.%N)" \
    'BEGIN { printf "-- run %d of %d: %.0f s\n", run, all, end - begin }'
done
"$(command -v /usr/bin/python3 || command -v python3)" - "$folder" <<'PYTHON'
import pathlib
import re
import statistics
import sys
import tomllib

texts = [file.read_text() for file in sorted(pathlib.Path(sys.argv[1]).glob("*.toml"))]
runs = [tomllib.loads(text) for text in texts]
figures = {key: [run[key] for run in runs]
           for key in runs[0] if key.startswith("probed_") and key != "probed_bandwidth_curve"}
for i, (size, _) in enumerate(runs[0]["probed_bandwidth_curve"]):
    figures[f"curve at {size:.4g} B"] = [run["probed_bandwidth_curve"][i][1] for run in runs]
print(f"{'figure':36} {'lowest':>10} {'median':>10} {'highest':>10} {'apart':>7}")
for key, values in figures.items():
    low, median, high = min(values), statistics.median(values), max(values)
    doubts = sum(bool(re.search(rf"^#   {key} .*doubtful", text, re.M)) for text in texts)
    print(f"{key:36} {low:10.4g} {median:10.4g} {high:10.4g} {100 * (high - low) / median:5.1f} %"
          + (f"   doubtful in {doubts} of {len(texts)}" if doubts else ""))
PYTHON
