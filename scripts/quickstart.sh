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
cmake --build --preset release --target forecost

step "3/6 Sweep real layers on this machine's CPU under MPI (about 2 minutes)"
mkdir -p "$out"
show "$forecost" devices --cores 1
# Rank 0 hands out the work, rank 1 measures on one core: with all cores in one device, any other
# program would make every timing wait.
collect=(mpirun -n 2 --bind-to none "$forecost" collect configs/sweeps/quickstart.toml -o "$run" --cores 1 --dedicated-manager)
if [ -d "$run" ]; then collect+=(--resume); fi
show "${collect[@]}"
show "$forecost" corpus info "$corpus"

step "4/6 Train with 2 ranks (some 10 seconds)"
show mpirun -n 2 --oversubscribe "$forecost" train "$corpus" -o "$model"

class=$("$forecost" devices --cores 1 --json | sed -n 's/.*"class": *"\([^"]*\)".*/\1/p' | head -n 1)
step "5/6 Predict VGG-16 and ResNet-50, inference and training, on this machine ($class)"
for mode in inference training; do
  show "$forecost" predict "$model" --network vgg16 resnet50 --device "$class" --batch 1 --mode "$mode" --optimizer sgd
done

step "6/6 Run whole networks for real, beside their predictions (some 20 seconds)"
for mode in inference training; do
  show "$forecost" measure vgg-small --batch 8 32 --mode "$mode" --optimizer adam --model "$model" --cores 1
done

step "Done"
cat <<EOF
Corpus  $corpus   (forecost corpus info, or h5py: docs/corpus.md)
Model   $model    (forecost predict $model --network vgg16 --device $class --batch 8)
EOF
