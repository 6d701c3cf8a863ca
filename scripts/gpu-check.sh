#!/usr/bin/env bash
# Whether Forecost computes and times rightly on this machine's GPU. Brings nothing from the network;
# 8 minutes at most. Writes one JSON report, prints tables.
#   scripts/gpu-check.sh [REPORT.json] [OPTIONS of gpu_check]      default: gpu-check.json
# Takes the build of BUILD=DIR (build/gpu-check unless told), which it makes if it is not there. What
# it does: every operator and pass, in f32, tf32, f16 and bf16, nchw and nhwc, beside nested loops in
# f64; a kernel that spins for 5 ms through the timing path (within 2 %); the probe's matrix rates,
# bandwidths and launch latency beside the data sheet; twenty tasks measured twice; the predictor trained
# on the GPU beside this CPU; a small sweep from collect to predict. Exit code 0: all is well; 3: no GPU or no CUDA module; 5: something is not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
report=$(realpath -m "${1:-gpu-check.json}")
shift $(($# > 0))
build=${BUILD:-build/gpu-check}
begin=$(date +%s)
if [ ! -x "$build/bin/gpu_check" ]; then
  echo "== build in $build" >&2
  cmake --preset ci -B "$build" -DFORECOST_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native >/dev/null
  cmake --build "$build" --target forecost gpu_check forecost_cuda_module | tail -n 1 >&2
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

echo "== results, clock, rates, repeatability, training" >&2
code=0
timeout 300 "$build/bin/gpu_check" "$@" >"$folder/check.json" || code=$?
[ "$code" = 0 ] || [ "$code" = 5 ] || exit "$code"

echo "== a small sweep: collect, train, predict" >&2
sweep=0
{
  timeout 120 "$build/bin/forecost" collect gpu-check --backend cuda -o "$folder/run" &&
    timeout 60 "$build/bin/forecost" train "$folder/run/corpus.h5" -o "$folder/model.h5" --device cpu &&
    timeout 30 "$build/bin/forecost" predict "$folder/model.h5" --network vgg-small --batch 8 \
      --device "$("$build/bin/forecost" devices --backend cuda --json |
        sed -n 's/.*"class": "\([^"]*\)".*/\1/p' | head -n 1)" --json >"$folder/predict.json"
} >&2 || sweep=$?

python=$(command -v /usr/bin/python3 || command -v python3)
"$python" - "$folder" "$report" "$sweep" $(($(date +%s) - begin)) <<'PYTHON'
import json
import pathlib
import sys

folder, report, sweep, seconds = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
merged = json.loads((folder / "check.json").read_text())
merged["sweep"] = {"exit_code": sweep}
predicted = folder / "predict.json"
if sweep == 0 and predicted.exists():
    merged["sweep"]["predictions"] = json.loads(predicted.read_text())["predictions"]
merged["seconds"] = seconds
pathlib.Path(report).write_text(json.dumps(merged, indent=2) + "\n")
PYTHON
echo "$report: $(($(date +%s) - begin)) s" >&2
if [ "$sweep" != 0 ]; then
  echo "the sweep ended with $sweep" >&2
  exit 5
fi
exit "$code"
