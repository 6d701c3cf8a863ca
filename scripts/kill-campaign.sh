#!/bin/sh
# Kills collecting MPI runs, merges and imports with SIGKILL, N times in all (200 unless told) at random moments
# and then once at each call that changes a file. Checks that no finished row is lost, that corpus.h5 is
# whole after each kill, and that the end is that of an uninterrupted run.
#   scripts/kill-campaign.sh [N] [SEED]        PRESET=asan chooses the build (ci)
set -eu
# shellcheck source=scripts/campaign.sh
. "$(dirname "$0")/campaign.sh"
export FORECOST_KILLS=$((${1:-200} / 2)) FORECOST_KILL_SEED="${2:-1}" FORECOST_KILL_EVERY=1
run_tests kills_test.MergeAndImport kills_test.AtEveryCall kills_test.Collect.test_kill_at_random_moments
