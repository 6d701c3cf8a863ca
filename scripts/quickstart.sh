#!/usr/bin/env bash
# From nothing to predictions on this machine: packages, build, sweep, training, predictions, and one
# whole network run for real beside its prediction. About 10 minutes on 2 cores.
#   scripts/quickstart.sh [OUTPUT_DIR]      quickstart-output unless told; run again to continue
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/packages.sh
source scripts/packages.sh
out=${1:-quickstart-output}
run=$out/run
corpus=$run/corpus.h5
model=$out/model.h5
forecost=build/release/bin/forecost
started=$SECONDS

step() { printf '\n== %s   [%d min %02d s so far]\n' "$1" $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60)); }
show() { printf '$ %s\n' "$*"; "$@"; }

# Containers often run as root, which Open MPI refuses unless told twice.
if [ "$(id -u)" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

step "1/6 Packages (a minute or two on a bare machine)"
install_packages "${forecost_debian_build[@]}"

step "2/6 Build the release preset (about 4 minutes on 2 cores)"
cmake --preset release | tail -n 3
cmake --build --preset release

step "3/6 Sweep real layers on this machine's CPU under MPI (about 4 minutes)"
mkdir -p "$out"
show "$forecost" devices
# Rank 0 hands out the work and needs no device; rank 1 measures on all cores as one device.
collect=(mpirun -n 2 --bind-to none "$forecost" collect configs/sweeps/quickstart.toml -o "$run" --cores "$(nproc)")
if [ -d "$run" ]; then collect+=(--resume); fi
show "${collect[@]}"
show "$forecost" corpus info "$corpus"

step "4/6 Train with 2 ranks (about a minute)"
show mpirun -n 2 --oversubscribe "$forecost" train "$corpus" -o "$model"

step "5/6 Predict VGG-16 and ResNet-50, inference and training, on this machine"
show "$forecost" predict "$model" --network vgg16 --network resnet50 --batch 1 --mode inference
show "$forecost" predict "$model" --network vgg16 --network resnet50 --batch 1 --mode training --optimizer sgd

step "6/6 Run whole networks for real, beside their predictions (about a minute)"
show "$forecost" measure vgg-small --batch 8 --batch 32 --mode inference --model "$model" --cores "$(nproc)"
show "$forecost" measure vgg-small --batch 8 --batch 32 --mode training --optimizer adam --model "$model" --cores "$(nproc)"

step "Done"
cat <<EOF
Corpus  $corpus   (forecost corpus info, or h5py: docs/corpus.md)
Model   $model    (forecost predict $model --network vgg16 --batch 8)
EOF
