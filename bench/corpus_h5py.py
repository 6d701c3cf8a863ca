"""The scan of bench_corpus in h5py, chunk by chunk: seconds without and with the digest."""
import hashlib
import resource
import sys
import time

import h5py

file = sys.argv[1]
begin = time.monotonic()
digest = hashlib.sha256()
with open(file, "rb") as f:
    while piece := f.read(1 << 20):
        digest.update(piece)
digest_s = time.monotonic() - begin
rows = found = 0
total = 0.0
begin = time.monotonic()
with h5py.File(file, "r") as f:
    for op in ("dense", "conv2d"):
        group = f[op]
        names = dict(zip(group["pass"].attrs["flag_meanings"].split(), group["pass"].attrs["flag_values"]))
        step = group["median_s"].chunks[0]
        for first in range(0, group["median_s"].size, step):
            part = slice(first, first + step)
            chosen = group["pass"][part] == names[b"forward"]
            median_s, memory = group["median_s"][part], group["memory_bytes"][part]
            rows += chosen.size
            found += int(chosen.sum())
            total += float(median_s[chosen].sum())
seconds = time.monotonic() - begin
print(f"h5py: {seconds:.2f} s without the digest, {seconds + digest_s:.2f} s with it; {found:,} of {rows:,} rows, "
      f"{total:.6g} s in all; at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")
