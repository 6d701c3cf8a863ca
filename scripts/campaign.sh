# shellcheck shell=sh
# Sourced by the campaigns: environment of tests/e2e for one build, then `run_tests NAME...`.
root=$(cd "$(dirname "$0")/.." && pwd)
build="${FORECOST_BUILD:-$root/build/${PRESET:-ci}}"
export FORECOST_PROGRAM="$build/bin/forecost"
export FORECOST_TEST_KEYS="$build/tests/e2e/test_keys"
export FORECOST_TEST_FAULTS="$build/tests/e2e/libtest_faults.so"
for file in "$FORECOST_PROGRAM" "$FORECOST_TEST_KEYS" "$FORECOST_TEST_FAULTS"; do
  if [ ! -f "$file" ]; then
    echo "$0: $file is missing: build a preset with tests first" >&2
    exit 2
  fi
done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none PYTHONDONTWRITEBYTECODE=1

run_tests() {
  cd "$root/tests/e2e" || exit 2
  ${launcher:-} /usr/bin/python3 -m unittest -v "$@"
}
