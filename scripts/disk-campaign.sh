#!/bin/sh
# Collects and merges on small tmpfs disks that are full but for STEP (4096), 2 STEP, ... bytes until
# all fits, and on a read-only one. Checks that each ends with exit code 3 and one line, that no
# committed row is lost, and that the work ends well once there is room.
#   scripts/disk-campaign.sh [STEP]        PRESET=asan chooses the build (ci)
set -eu
# shellcheck source=scripts/campaign.sh
. "$(dirname "$0")/campaign.sh"
export FORECOST_DISK_STEP="${1:-4096}"
launcher="unshare --map-root-user --mount"
run_tests disk_test
