#!/bin/sh
# Installs into a temporary prefix, moves it and runs the program from there.
#   install_test.sh CMAKE BUILD_DIR BINDIR DATADIR      the last two relative to the prefix
set -eu
cmake=$1 build=$2 bindir=$3 datadir=$4
scratch=$(mktemp -d "$build/install-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
fail() { echo "install_test: $*" >&2; exit 1; }

"$cmake" --install "$build" --prefix "$scratch/prefix" >"$scratch/log" || fail "cmake --install"
mv "$scratch/prefix" "$scratch/moved"
forecost=$scratch/moved/$bindir/forecost
configs=$scratch/moved/$datadir/forecost/configs
unset FORECOST_CONFIGS
cd "$scratch"

# The build's program falls back to the source tree's configs; names that only the installation has
# show which ones are read.
cp "$configs/networks/vgg16.toml" "$configs/networks/installed-network.toml"
cp "$configs/devices/v100.toml" "$configs/devices/installed-device.toml"
cp "$configs/sweeps/quickstart.toml" "$configs/sweeps/installed-sweep.toml"
"$forecost" networks installed-network | grep -q fc6 || fail "network of share/ not found"
"$forecost" devices --replay installed-device | grep -q V100 || fail "device of share/ not found"
"$forecost" collect installed-sweep --replay installed-device --plan-only | grep -q conv2d ||
  fail "sweep of share/ not planned"

# Every library is found, and none inside the build tree, which need not stay.
libraries=$(ldd "$forecost")
if echo "$libraries" | grep -E "not found|$build/"; then fail "these libraries"; fi
