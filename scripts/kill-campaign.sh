#!/bin/sh
# Kills a collecting MPI run with SIGKILL at N random moments (20 unless told), resumes it each time,
# and checks that no finished row is lost and that the corpus ends valid and complete.
#   scripts/kill-campaign.sh [N] [SEED]        PRESET=release chooses the build (ci)
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build="$root/build/${PRESET:-ci}"
for program in bin/forecost tests/e2e/test_keys; do
  if [ ! -x "$build/$program" ]; then
    echo "kill-campaign: $build/$program is missing: build a preset with tests first" >&2
    exit 2
  fi
done
export FORECOST_KILLS="${1:-20}" FORECOST_KILL_SEED="${2:-1}"
export FORECOST_PROGRAM="$build/bin/forecost" FORECOST_TEST_KEYS="$build/tests/e2e/test_keys"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cd "$root/tests/e2e"
exec /usr/bin/python3 -m unittest -v collect_test.Kills.test_kill_at_random_moments
