#!/bin/sh
# Changes one byte at a time of corpus.h5, its digest and journals, in N places (500 unless told), and
# cuts files at random lengths. Checks that each reader ends with exit code 4 or reads what was there.
#   scripts/damage-campaign.sh [N] [SEED]        PRESET=asan chooses the build (ci)
set -eu
# shellcheck source=scripts/campaign.sh
. "$(dirname "$0")/campaign.sh"
export FORECOST_PLACES=$((${1:-500} / 2)) FORECOST_DAMAGE_SEED="${2:-1}"
run_tests damage_test
