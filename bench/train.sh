#!/usr/bin/env bash
# Trainer speed beside python3-torch on one thread (if it is there), and of two ranks beside one.
#   bench/train.sh [SECONDS] [ROUNDS]      builds the preset `bench` first
# Programs take turns, and the best round of each counts: a neighbour only ever slows one down. Torch
# runs with OpenBLAS (forecost_debian_bench has it) and, as Forecost does for itself, with an
# allocator that keeps its pages.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-2} rounds=${2:-3}
if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
cmake --preset bench >/dev/null
cmake --build --preset bench --target bench_train | tail -n 1
bench=build/bench/bench/bench_train
python=$(command -v /usr/bin/python3 || command -v python3)
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# OpenBLAS 0.3.21 takes CPUs that are newer than itself for older ones, at half the speed.
if grep -qw avx512f /proc/cpuinfo; then export OPENBLAS_CORETYPE=SkylakeX; fi
torch=yes
if ! "$python" -c 'import torch' 2>/dev/null; then
  torch=no
  echo "python3-torch is not installed: no peer to compare with"
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for round in $(seq "$rounds"); do
  echo "-- round $round of $rounds"
  taskset -c 0 "$bench" "$seconds" | tee >(sed 's/^/one /' >>"$log")
  if [ $torch = yes ]; then
    MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296 \
      taskset -c 0 "$python" bench/train_torch.py "$seconds" | tee >(sed 's/^/torch /' >>"$log")
    taskset -c 0 "$python" bench/train_torch.py "$seconds" | tee >(sed 's/^/torch /' >>"$log")
  fi
  mpirun -n 2 "$bench" "$seconds" | tee >(sed 's/^/two /' >>"$log")
done
sleep 0.2 # the last tee's reader
awk -v torch=$torch '
  function best(key, value) { if (value > most[key]) most[key] = value }
  $2 == "GEMM" { best($1 " gemm", $NF) }
  $2 == "train" { best($1 " " $6, $1 == "torch" ? $NF : $(NF - 1)) }
  function ratio(what, a, b, aim) { printf "%-46s %8.0f / %8.0f = %.2f   (aim %s)\n", what, a, b, a / b, aim }
  END {
    print "-- best of all rounds"
    printf "GEMM rate: %.0f GFLOP/s ours", most["one gemm"]
    if (torch == "yes") printf ", %.0f torch", most["torch gemm"]
    print ""
    ratio("two ranks / one, batch 128, steps/s", most["two 128"] / 128, most["one 128"] / 128, "-")
    ratio("two ranks / one, batch 1024, steps/s", most["two 1024"] / 1024, most["one 1024"] / 1024, "1.8")
    if (torch == "yes" && most["torch gemm"] < 0.7 * most["one gemm"]) {
      print "torch has a slow BLAS here (libopenblas0-pthread is a fast one): no ratio"
    } else if (torch == "yes") {
      ratio("ours / torch, batch 128, rows/s", most["one 128"], most["torch 128"], "1.5")
      ratio("ours / torch, batch 1024, rows/s", most["one 1024"], most["torch 1024"], "1.3")
    }
  }' "$log"
