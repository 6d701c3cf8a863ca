#!/usr/bin/env bash
# Every operator and pass beside python3-torch, on the same cores, taking turns.
#   bench/operators.sh [ARGUMENTS of operators_torch.py ...]     builds the preset `bench` first
# PyTorch runs as fast as it gets: OpenBLAS (forecost_debian_bench has it) with its AVX-512 kernels, and
# an allocator that keeps its pages, since it allocates every result anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cmake --preset bench >/dev/null
cmake --build --preset bench --target bench_operators | tail -n 1
python=$(command -v /usr/bin/python3 || command -v python3)
"$python" -c 'import torch' || { echo "python3-torch is not installed: no peer to compare with"; exit 3; }
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# Debian's PyTorch takes AVX2 unless told, and OpenBLAS 0.3.21 takes newer CPUs for older ones.
if grep -qw avx512f /proc/cpuinfo; then
  export OPENBLAS_CORETYPE=SkylakeX ATEN_CPU_CAPABILITY=avx512
fi
MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296 \
  "$python" bench/operators_torch.py build/bench/bench/bench_operators "$@"
