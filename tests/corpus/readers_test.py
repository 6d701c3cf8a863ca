"""What readers in other languages see, and the corpus verb. Usage: readers_test.py FORECOST DOCS_CORPUS_MD"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import h5py
import xarray

FORECOST, DOCUMENT = sys.argv[1:]
SWEEP = """
[sweep]
name = "readers"
seed = 3
[[dense]]
samples = 20
batch = [1, 2, 4]
in_features = {min = 8, max = 512}
out_features = {min = 8, max = 512}
activation = ["none", "tanh"]
passes = ["forward", "update"]
optimizers = ["adam"]
"""


def run(*arguments, code=0):
    done = subprocess.run([FORECOST, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    pathlib.Path("sweep.toml").write_text(SWEEP)
    run("collect", "sweep.toml", "-o", "run", "--backend", "replay")
    corpus = pathlib.Path("run/corpus.h5")

    # Values by group and column: the layers of the plan, named by the corpus's own codes.
    with h5py.File(corpus) as f:
        assert f.attrs["schema"] == b"forecost-corpus" and f.attrs["schema_version"] == 1
        group = f["dense"]
        meanings = group["pass"].attrs["flag_meanings"].split()
        passes = [meanings[code] for code in group["pass"][:]]
        assert sorted(set(passes)) == [b"forward", b"update"], set(passes)
        assert set(group["batch"][:]) <= {1, 2, 4} and group["batch"].size == 40
        assert group["median_s"].attrs["units"] == b"s" and (group["median_s"][:] > 0).all()
        begin = list(group["sample_begin"][:]) + [group["samples_s"].size]
        for row, n in enumerate(group["n"][:]):
            samples = group["samples_s"][begin[row]:begin[row + 1]]
            assert len(samples) == n and abs(samples.min() / group["min_s"][row] - 1) < 1e-6
        assert {d for d in group["device_id"][:]} <= set(f["devices"]["id"][:])
    table = xarray.open_dataset(corpus, engine="h5netcdf", group="dense")
    assert table.sizes["row"] == 40 and float(table["median_s"].min()) > 0

    # Every Python block of the document runs as it is.
    blocks = re.findall(r"```python\n(.*?)```", pathlib.Path(DOCUMENT).read_text(), re.S)
    assert blocks
    for block in blocks:
        subprocess.run([sys.executable, "-c", block], check=True, timeout=60)

    # The verb: results, refusals.
    assert "40 rows" in run("corpus", "info", "run").stdout
    assert '"rows": 40' in run("corpus", "info", corpus, "--json").stdout
    assert run("corpus", "validate", "run").stdout == "run: valid\n"
    run("corpus", "merge", "run", corpus, "-o", "merged.h5")
    assert "40 rows" in run("corpus", "info", "merged.h5").stdout
    assert "known: info, validate, merge" in run("corpus", "inf", code=2).stderr
    assert "absent.h5" in run("corpus", "info", "absent.h5", code=3).stderr
    run("corpus", "merge", "run", code=2)
    damaged = bytearray(corpus.read_bytes())
    damaged[1000] ^= 4
    corpus.write_bytes(damaged)
    assert "corpus.h5" in run("corpus", "info", corpus, code=4).stderr
    done = run("corpus", "validate", "run", code=4)
    assert "1 problem" in done.stdout and "corpus.h5" in done.stdout, done.stdout
    print("ok")
