#!/bin/sh
# Starts 2 to 4 merges into one corpus together, N times (30 unless told), and merges beside a run that
# collects into it; then all of it without working locks, one writer at a time. Checks that the corpus
# holds what each merge that ended with 0 put in.
#   scripts/lock-campaign.sh [N]        PRESET=asan chooses the build (ci)
set -eu
# shellcheck source=scripts/campaign.sh
. "$(dirname "$0")/campaign.sh"
export FORECOST_ROUNDS="${1:-30}"
run_tests locks_test
