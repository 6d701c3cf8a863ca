#!/usr/bin/env bash
# Trainer speed beside python3-torch on one thread (if it is there), one and two ranks.
#   bench/train.sh [SECONDS]      builds the preset `bench` first
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-2}
if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
cmake --preset bench >/dev/null
cmake --build --preset bench --target bench_train | tail -n 1
python=$(command -v /usr/bin/python3 || command -v python3)
export OMP_NUM_THREADS=1
for round in 1 2; do
  echo "-- round $round"
  taskset -c 0 build/bench/bench/bench_train "$seconds"
  if "$python" -c 'import torch' 2>/dev/null; then
    taskset -c 0 "$python" bench/train_torch.py "$seconds"
  else
    echo "python3-torch is not installed: no peer to compare with"
  fi
  mpirun -n 2 build/bench/bench/bench_train "$seconds"
done
