#!/usr/bin/env bash
# Installs what is missing, builds with tests (warnings are errors) and runs every test through CTest.
#   scripts/test.sh [PRESET]     ci unless told: debug, asan
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/packages.sh
source scripts/packages.sh
preset=${1:-ci}

echo "== 1/3 packages"
install_packages "${forecost_debian_build[@]}" "${forecost_debian_test[@]}"
echo "== 2/3 build, preset $preset (about 5 minutes on 2 cores)"
cmake --preset "$preset" | tail -n 3
cmake --build --preset "$preset"
echo "== 3/3 tests (about 3 minutes)"
ctest --preset "$preset"
