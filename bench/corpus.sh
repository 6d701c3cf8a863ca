#!/usr/bin/env bash
# Speed and size of journals and corpora, beside h5py reading the same columns, and the choice of
# chunk size and compression.
#   bench/corpus.sh [MILLION_ROWS] [FOLDER]      10 and a temporary folder unless told
# Builds the preset `bench` first. Of 10 million rows, writing needs 12 GB of memory and the files 2 GB
# of disk.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
millions=${1:-10}
folder=${2:-$(mktemp -d)}
if [ $# -lt 2 ]; then trap 'rm -rf "$folder"' EXIT; fi
cmake --preset bench >/dev/null
cmake --build --preset bench --target bench_corpus | tail -n 1
bench=build/bench/bench/bench_corpus
python=$(command -v /usr/bin/python3 || command -v python3)

echo "-- journal, 200,000 rows"
"$bench" journal 200000 "$folder"

echo "-- corpus, 1 million rows, and a merge of it with itself"
"$bench" make 1000000 "$folder/million.h5"
"$bench" merge "$folder/million.h5" "$folder/million.h5"

echo "-- chunk rows and deflate level (the program has 16384 and 2): bytes per row, repacking, scan"
if command -v h5repack >/dev/null; then
  try=()
  for chunk in 1024 4096 16384 65536 262144; do try+=("$chunk 2"); done
  for level in 0 1 4 6 9; do try+=("16384 $level"); done
  for pair in "${try[@]}"; do
    read -r chunk level <<<"$pair"
    filters=(-f SHUF -f "GZIP=$level")
    if [ "$level" -eq 0 ]; then filters=(-f NONE); fi
    begin=$(date +%s.%N)
    h5repack -l "CHUNK=$chunk" "${filters[@]}" "$folder/million.h5" "$folder/try.h5"
    repack=$(echo "$(date +%s.%N) - $begin" | bc)
    (cd "$folder" && sha256sum try.h5 >try.h5.sha256)
    printf 'chunk %6d  level %d  %6.1f bytes per row  repacked in %5.2f s  %s\n' "$chunk" "$level" \
      "$(echo "$(stat -c %s "$folder/try.h5") / 1000000" | bc -l)" "$repack" \
      "$("$bench" scan "$folder/try.h5" | head -n 1)"
  done
else
  echo "h5repack (hdf5-tools) is not installed: left out"
fi

echo "-- scan of 3 columns of $millions million rows (aim: at most 5 s and 300 MB for 10 million)"
"$bench" make $((millions * 1000000)) "$folder/all.h5"
for _ in 1 2 3; do "$bench" scan "$folder/all.h5"; done
"$python" bench/corpus_h5py.py "$folder/all.h5"
