#!/bin/sh
# with_report.sh REPORT PROCESSES COMMAND...: runs the command over the stand-in, and holds that each
# of so many processes reported, and that none broke the protocol.
set -eu
report=$1 processes=$2
shift 2
rm -f "$report"-*.txt
"$@"
found=$(find "$(dirname "$report")" -name "$(basename "$report")-*.txt" | wc -l)
if [ "$found" -ne "$processes" ]; then
  echo "$found reports of the stand-in, expected $processes"
  exit 1
fi
if ! grep -L "end: 0 violations" "$report"-*.txt | awk '{ bad = 1 } END { exit bad }'; then
  cat "$report"-*.txt
  exit 1
fi
