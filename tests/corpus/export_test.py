"""forecost corpus export and diff as users call them; what they write against what h5py reads.
Usage: export_test.py FORECOST"""
import csv
import hashlib
import json
import math
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

import h5py
import numpy

FORECOST = sys.argv[1]
SWEEP = """
[sweep]
name = "export"
seed = 5
[[dense]]
samples = 12
batch = [1, 2, 4]
in_features = {min = 8, max = 512}
out_features = {min = 8, max = 512}
activation = ["none", "tanh"]
passes = ["forward", "update"]
optimizers = ["adam"]
[[conv2d]]
samples = 8
batch = [1, 8]
in_channels = {min = 1, max = 64}
out_channels = {min = 1, max = 64}
in_h = {min = 8, max = 32}
in_w = {min = 8, max = 32}
kernel_h = 3
kernel_w = 3
"""
REASONS = ['a,b', 'he said "no"', "two\nlines", "µ ü", "plain"]


def run(*arguments, code=0):
    done = subprocess.run([FORECOST, "corpus", *map(str, arguments)], capture_output=True, timeout=60)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    if code != 0:
        assert done.stderr.count(b"\n") == 1, done.stderr
    return done.stdout.decode() if code == 0 else done.stderr.decode()


def change(source, target, edit):
    """A copy of a corpus with something else in it, and its digest."""
    shutil.copy(source, target)
    with h5py.File(target, "r+") as f:
        edit(f)
    digest = hashlib.sha256(pathlib.Path(target).read_bytes()).hexdigest()
    pathlib.Path(target + ".sha256").write_text(f"{digest}  {target}\n")


def columns_of(group):
    """Per column of the export: what h5py reads of it, a string for a code or text."""
    rows = group["median_s"].size
    columns = {}
    for name, column in group.items():
        if column.shape != (rows,) or name in ("row", "sample", "sample_begin", "samples_s"):
            continue
        if "flag_values" in column.attrs:
            meanings = column.attrs["flag_meanings"].decode().split()
            names = dict(zip(column.attrs["flag_values"].tolist(), meanings))
            columns[name] = [names[code] for code in column[:].tolist()]
        elif column.dtype.kind in "SO":
            columns[name] = [text.decode() for text in column[:]]
        else:
            columns[name] = column[:].tolist()
    ends = [*group["sample_begin"][1:], group["samples_s"].size]
    columns["samples_s"] = [group["samples_s"][b:e] for b, e in zip(group["sample_begin"][:], ends)]
    return columns


def same(exported, stored):
    """Bit for bit, where None and "" are unknown."""
    if isinstance(stored, float):
        if math.isnan(stored):
            return exported in ("", None)
        return numpy.float64(exported).tobytes() == numpy.float64(stored).tobytes()
    if isinstance(stored, int):
        return int(exported) == stored
    if isinstance(stored, numpy.ndarray):
        values = exported.split() if isinstance(exported, str) else exported
        return numpy.array(values, "float32").tobytes() == stored.tobytes()
    return exported == stored


def strange(f):
    """Reasons that need quotes, numbers that need every digit."""
    group = f["dense"]
    size = group["reason"].size
    reasons = (REASONS * size)[:size]
    del group["reason"]
    text = h5py.string_dtype("utf-8", 64)
    group.create_dataset("reason", data=numpy.array([r.encode() for r in reasons], dtype=text))
    random = numpy.random.default_rng(1)
    group["host_s"][:] = 10.0 ** random.uniform(-300, 300, size)
    group["plan_s"][:3] = [5e-324, numpy.nextafter(1, 2), 0.1 + 0.2]


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    pathlib.Path("sweep.toml").write_text(SWEEP)
    subprocess.run([FORECOST, "collect", "sweep.toml", "-o", "run", "--backend", "replay"], check=True,
                   timeout=60, capture_output=True)
    change("run/corpus.h5", "strange.h5", strange)

    # Every column of every row, in the order of the file, in both formats.
    assert run("export", "strange.h5", "-o", "t.csv", "--samples").startswith("t.csv: 32 rows, ")
    assert run("export", "strange.h5", "-o", "t.jsonl", "--samples").startswith("t.jsonl: 32 rows, ")
    with open("t.csv", newline="", encoding="utf-8") as f:
        from_csv = list(csv.DictReader(f, strict=True))
    refuse = lambda constant: sys.exit(f"not strict JSON: {constant}")
    from_json = [json.loads(line, parse_constant=refuse)
                 for line in pathlib.Path("t.jsonl").read_text().splitlines()]
    with h5py.File("strange.h5") as f:
        tables = [(name, columns_of(f[name])) for name in dict.fromkeys(row["operator"] for row in from_csv)]
    stored = [(name, {c: v[i] for c, v in columns.items()})
              for name, columns in tables for i in range(len(columns["median_s"]))]
    assert len(stored) == len(from_csv) == len(from_json) == 32
    for (name, row), line, document in zip(stored, from_csv, from_json):
        assert line.pop("operator") == document.pop("operator") == name
        # A group has some columns only where a row has more than their default.
        for sparse in set(document) - set(row):
            assert document.pop(sparse) in (None, 0, "") and line.pop(sparse) in ("", "0"), sparse
        assert set(document) == set(row), set(document) ^ set(row)
        assert set(line) >= set(row)
        for column in line:
            if column in row:
                assert same(line[column], row[column]), (column, line[column], row[column])
                assert same(document[column], row[column]), (column, document[column], row[column])
            else:
                assert line[column] == "", (column, line[column])
    assert {row["reason"] for row in from_csv} >= set(REASONS)
    assert pathlib.Path("t.csv").read_bytes() == run("export", "strange.h5", "-o", "-", "--samples").encode()

    # A choice of rows and columns; a run directory; refusals of one line.
    text = run("export", "run", "--operator", "dense", "--status", "ok", "--columns", "batch,pass", "-o", "-")
    assert text.startswith("batch,pass\n") and text.count("\n") == 25, text
    text = run("export", "run", "--format", "jsonl", "--columns", "pass", "--operator", "dense", "-o", "-")
    assert set(text.split()) == {'{"pass":"forward"}', '{"pass":"update"}'}, text
    assert "known: csv, jsonl" in run("export", "run", "-o", "-", "--format", "xlsx", code=2)
    assert "ends in .csv or .jsonl" in run("export", "run", "-o", "t.txt", code=2)
    assert "known: ok, unsupported" in run("export", "run", "-o", "-", "--status", "okay", code=2)
    assert "known: operator, batch" in run("export", "run", "-o", "-", "--columns", "bach", code=2)
    assert "--output" in run("export", "run", code=2)
    assert "expected a corpus" in run("export", "-o", "t.csv", code=2)
    assert "no export" in run("export", "run", "--format", "csv", "-o", "run/corpus.h5", code=2)
    assert "absent.h5" in run("export", "absent.h5", "-o", "t.csv", code=3)
    with open("/dev/full", "w") as full:
        done = subprocess.run([FORECOST, "corpus", "export", "run", "-o", "-"], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode == 3 and done.stderr.count("\n") == 1, done

    # A disk that fills up: exit code 3, the old file stays, nothing is left beside it.
    def full():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    before = pathlib.Path("t.csv").read_bytes()
    done = subprocess.run([FORECOST, "corpus", "export", "run", "-o", "t.csv"], capture_output=True,
                          text=True, timeout=60, preexec_fn=full)
    assert done.returncode == 3 and done.stderr.count("\n") == 1 and "t.csv: cannot be written" in done.stderr, done
    assert pathlib.Path("t.csv").read_bytes() == before and len(list(pathlib.Path().glob("t.csv*"))) == 1

    # A corpus compared with itself, and with one where known rows changed.
    itself = json.loads(run("diff", "run", "run/corpus.h5", "--json"), parse_constant=refuse)
    assert itself["keys_in_both"] == 32 and len(itself["rows"]) == 32, itself
    assert all(row["ratio"] == 1 and row["verdict"] == "same" for row in itself["rows"])
    assert all(group["geomean_ratio"] == 1 and group["same"] == group["n"] for group in itself["groups"])

    def slower(f):
        for name in ("min_s", "q1_s", "median_s", "q3_s", "max_s", "mean_s", "stdev_s"):
            f["dense"][name][:6] = 2 * f["dense"][name][:6]
        f["dense"]["status"][6] = numpy.flatnonzero(
            numpy.array(f["dense"]["status"].attrs["flag_meanings"].split()) == b"timeout")[0]
        f["dense"]["median_s"][6] = numpy.nan

    change("run/corpus.h5", "slower.h5", slower)
    diff = json.loads(run("diff", "run", "slower.h5", "--json"), parse_constant=refuse)
    assert diff["keys_in_both"] == 31 and [c["b"] for c in diff["status_changes"]] == ["timeout"], diff
    assert [row["ratio"] for row in diff["rows"]] == [2] * 6 + [1] * 25
    assert [row["verdict"] for row in diff["rows"]] == ["slower"] * 6 + ["same"] * 25
    assert len(json.loads(run("diff", "run", "slower.h5", "--json", "--top", 3))["rows"]) == 3
    text = run("diff", "slower.h5", "run", "--top", 2)
    assert "The largest of 6 differences" in text and text.count("  faster  ") == 3, text
    assert "1 key ok on one side only" in text and "timeout  ok" in text, text

    change("run/corpus.h5", "elsewhere.h5", lambda f: [
        f.__delitem__(f"{group}/device_class") or f[group].create_dataset(
            "device_class", data=numpy.full(f[group]["median_s"].shape, b"other"))
        for group in ("conv2d", "dense")])
    assert "--any-class" in run("diff", "run", "elsewhere.h5")
    diff = json.loads(run("diff", "run", "elsewhere.h5", "--any-class", "--json"))
    assert diff["keys_in_both"] == 32 and diff["groups"][0]["class"].endswith(" -> other"), diff
    assert "expected two" in run("diff", "run", code=2)
    assert "--tolerance" in run("diff", "run", "run", "--tolerance", "nan", code=2)
    assert "absent" in run("diff", "run", "absent.h5", code=3)
    pathlib.Path("slower.h5.sha256").unlink()
    assert "slower.h5" in run("diff", "run", "slower.h5", code=4)
    print("ok")
