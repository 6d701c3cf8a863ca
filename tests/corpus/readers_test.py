"""What readers in other languages see, and the corpus verb. 
Usage: readers_test.py FORECOST WRITE_KNOWN_CORPUS DOCS_CORPUS_MD"""
import gzip
import hashlib
import math
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import h5py
import numpy
import xarray

FORECOST, WRITER, DOCUMENT = sys.argv[1:]
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


def sign(file):
    """Gives a changed file its digest."""
    digest = hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest()
    pathlib.Path(file + ".sha256").write_text(f"{digest}  {file}\n")


def run(*arguments, code=0):
    done = subprocess.run([FORECOST, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)

    # Values and names as helper/write_known_corpus.cpp wrote them.
    subprocess.run([WRITER, "known.h5"], check=True, timeout=60)
    with h5py.File("known.h5") as f:
        def named(group, column):
            attributes = f[group][column].attrs
            names = dict(zip(attributes["flag_values"].tolist(), attributes["flag_meanings"].split()))
            return [names[code] for code in f[group][column][:].tolist()]

        dense, conv = f["dense"], f["conv2d"]
        assert dense["batch"][:].tolist() == [1, 2] and dense["in_features"][:].tolist() == [3, 3]
        assert dense["min_s"][:].tolist() == [0.1, 0.2] and dense["max_s"][:].tolist() == [0.4, 0.8]
        assert dense["median_s"][:].tolist() == [0.2, 0.4] and dense["sample_count"][:].tolist() == [3, 3]
        assert dense["seed"][:].tolist() == [2**64 - 1] * 2
        assert dense["sample_begin"][:].tolist() == [0, 2]
        assert dense["samples_s"][:].tolist() == [0.5, 1, 0.5, 2, 0.25]
        assert named("dense", "status") == [b"ok"] * 2 and named("dense", "pass") == [b"forward"] * 2
        expected = {"pass": b"update", "dtype": b"bf16", "optimizer": b"adamw", "cache_state": b"hot",
                    "status": b"skipped_memory", "activation": b"tanh"}
        for column, name in expected.items():
            assert named("conv2d", column) == [name], (column, named("conv2d", column))
        assert conv["reason"][0] == b"needs 3 GB" and math.isnan(conv["median_s"][0])
        assert f["devices"]["name"][0].decode() == "Card µ" and f["devices"]["clock_hz"][0] == 1.5e9
        assert f["devices"]["clock_hz"].attrs["units"] == b"Hz"
        assert dense["device_id"][0] == f["devices"]["id"][0]
        assert "1.0 ü" in f["environments"]["facts_json"][0].decode()
    known = xarray.open_dataset("known.h5", engine="h5netcdf", group="dense")
    assert known["median_s"].values.tolist() == [0.2, 0.4]

    # Version 1 called sample_count n, and had no source_line.
    shutil.copy("known.h5", "before.h5")
    with h5py.File("before.h5", "r+") as f:
        f.attrs["schema_version"] = numpy.int64(1)
        for operator in ("dense", "conv2d"):
            f[operator].move("sample_count", "n")
            assert "source_line" not in f[operator], "nothing was imported"
    sign("before.h5")
    run("corpus", "merge", "before.h5", "-o", "after.h5")
    with h5py.File("after.h5") as f:
        assert f["dense"]["sample_count"][:].tolist() == [3, 3] and "n" not in f["dense"]

    pathlib.Path("sweep.toml").write_text(SWEEP)
    run("collect", "sweep.toml", "-o", "run", "--backend", "replay")
    corpus = pathlib.Path("run/corpus.h5")

    # Values by group and column: the layers of the plan, named by the corpus's own codes.
    with h5py.File(corpus) as f:
        assert f.attrs["schema"] == b"forecost-corpus" and f.attrs["schema_version"] == 3
        group = f["dense"]
        meanings = group["pass"].attrs["flag_meanings"].split()
        passes = [meanings[code] for code in group["pass"][:]]
        assert sorted(set(passes)) == [b"forward", b"update"], set(passes)
        assert set(group["batch"][:]) <= {1, 2, 4} and group["batch"].size == 40
        assert group["median_s"].attrs["units"] == b"s" and (group["median_s"][:] > 0).all()
        begin = list(group["sample_begin"][:]) + [group["samples_s"].size]
        for row, n in enumerate(group["sample_count"][:]):
            samples = group["samples_s"][begin[row]:begin[row + 1]]
            assert len(samples) == n and abs(samples.min() / group["min_s"][row] - 1) < 1e-6
        assert {d for d in group["device_id"][:]} <= set(f["devices"]["id"][:])
    table = xarray.open_dataset(corpus, engine="h5netcdf", group="dense")
    assert table.sizes["row"] == 40 and float(table["median_s"].min()) > 0

    # Every export and every Python block of the document runs as it is, and prints something.
    document = pathlib.Path(DOCUMENT).read_text()
    exports = re.findall(r"^    forecost (corpus export .*)$", document, re.M)
    blocks = re.findall(r"```python\n(.*?)```", document, re.S)
    imported = {word for block in blocks for word in re.findall(r"^import (\w+)$", block, re.M)}
    assert exports and imported >= {"h5py", "pandas", "xarray"}, (exports, imported)
    for command in exports:
        assert run(*shlex.split(command)).stdout
    for block in blocks:
        assert subprocess.run([sys.executable, "-c", block], check=True, timeout=60, capture_output=True).stdout

    # The verb: results, refusals.
    assert "40 rows" in run("corpus", "info", "run").stdout
    assert '"rows": 40' in run("corpus", "info", corpus, "--json").stdout
    assert run("corpus", "validate", "run").stdout == "run: valid\n"
    pathlib.Path("empty").mkdir()
    assert "expected a run directory" in run("corpus", "validate", "empty", code=4).stdout
    run("corpus", "merge", "run", corpus, "-o", "merged.h5")
    assert "40 rows" in run("corpus", "info", "merged.h5").stdout
    assert "known: info, validate, merge" in run("corpus", "inf", code=2).stderr
    assert "absent.h5" in run("corpus", "info", "absent.h5", code=3).stderr
    run("corpus", "merge", "run", code=2)

    # Codes mean what the file says they mean: the same rows under other numbers, as a program with
    # other enumerations would write them, are the same rows; a code without known meaning is refused.
    shutil.copy(corpus, "renumbered.h5")
    renumbered = set()
    with h5py.File("renumbered.h5", "r+") as f:
        for name, column in f["dense"].items():
            if "flag_values" in column.attrs:
                renumbered.add(name)
                column[:] = 250 - column[:]
                values, meanings = column.attrs["flag_values"], column.attrs["flag_meanings"].split()
                column.attrs["flag_values"] = numpy.append(250 - values, numpy.uint8(251))
                column.attrs["flag_meanings"] = numpy.bytes_(b" ".join([*meanings, b"warp"]))
    assert {"pass", "dtype", "optimizer", "status", "protocol", "activation"} <= renumbered, renumbered
    sign("renumbered.h5")
    run("corpus", "merge", "renumbered.h5", corpus, "-o", "same.h5")
    assert "40 rows (40 ok)" in run("corpus", "info", "same.h5").stdout
    for column, code, known in (("status", 251, "ok unsupported"), ("activation", 251, "none relu"),
                                ("status", 0, "ok unsupported")):
        shutil.copy("renumbered.h5", "unknown.h5")
        with h5py.File("unknown.h5", "r+") as f:
            f["dense"][column][7] = code
        sign("unknown.h5")
        stderr = run("corpus", "info", "unknown.h5", code=4).stderr
        assert f"/dense: row 7: {column}: code {code}" in stderr and "251=warp" in stderr, stderr
        assert f"known are {known}" in stderr and stderr.count("\n") == 1, stderr
    with h5py.File("unknown.h5", "r+") as f:
        f["dense"]["pass"].attrs["flag_meanings"] = numpy.bytes_(b"forward")
    sign("unknown.h5")
    assert "7 flag_values, but 1 flag_meanings" in run("corpus", "info", "unknown.h5", code=4).stderr

    # A corpus of schema version 1, as its program wrote it: the same numbers, in today's columns.
    old = gzip.decompress((pathlib.Path(__file__).parent / "data" / "schema-1.h5.gz").read_bytes())
    pathlib.Path("old.h5").write_bytes(old)
    sign("old.h5")
    assert "20 rows (20 ok)" in run("corpus", "info", "old.h5").stdout
    assert run("corpus", "validate", "old.h5").stdout == "old.h5: valid\n"
    shutil.copy("old.h5", "migrated.h5")
    shutil.copy("old.h5.sha256", "migrated.h5.sha256")
    run("corpus", "merge", "old.h5", "-o", "migrated.h5")
    with h5py.File("old.h5") as before, h5py.File("migrated.h5") as after:
        assert before.attrs["schema_version"] == 1 and after.attrs["schema_version"] == 3
        assert b"migrated from schema version 1" in after.attrs["history"], after.attrs["history"]
        for group in ("conv2d", "dense"):
            order = [numpy.lexsort([f[group][c][:] for c in ("median_s", "pass", "batch")])
                     for f in (before, after)]
            for column in before[group]:
                name = "sample_count" if column == "n" else column
                assert name in after[group], column
                if before[group][column].shape == order[0].shape and column != "sample_begin":
                    old_values = before[group][column][:][order[0]]
                    new_values = after[group][name][:][order[1]]
                    assert ((old_values == new_values) | (old_values != old_values)).all(), column
    written = pathlib.Path("migrated.h5").stat().st_mtime_ns
    assert "nothing new" in run("corpus", "merge", "old.h5", "-o", "migrated.h5").stdout
    assert pathlib.Path("migrated.h5").stat().st_mtime_ns == written

    # What this program does not know is refused, with both lists; other units; other files.
    def changed(change):
        shutil.copy(corpus, "changed.h5")
        with h5py.File("changed.h5", "r+") as f:
            change(f)
        sign("changed.h5")
        done = run("corpus", "info", "changed.h5", code=4)
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr + run("corpus", "validate", "changed.h5", code=4).stdout
    text = changed(lambda f: f["dense"].create_dataset("note", data=numpy.zeros(40)))
    for part in ("schema version 3 in the file, 3 here", " note ", "known: ", "/dense:"):
        assert part in text, text
    text = changed(lambda f: f.attrs.__setitem__("schema_version", 4))
    assert "reads versions 1 to 3" in text and "operators in the file: dense; known: " in text, text
    assert "units are 'ms', expected 's'" in changed(
        lambda f: f["dense"]["median_s"].attrs.__setitem__("units", numpy.bytes_(b"ms")))
    def delete(f):
        del f["dense"]["warmup_s"]
    assert "warmup_s" in changed(delete)
    def link(f):
        f["dense"]["elsewhere"] = h5py.ExternalLink("other.h5", "/dense/median_s")
    assert "/dense/elsewhere: a soft link, or one into another file" in changed(link)
    def virtual(f):
        layout = h5py.VirtualLayout(shape=(40,), dtype="f8")
        layout[:] = h5py.VirtualSource("other.h5", "/dense/median_s", shape=(40,))
        del f["dense"]["host_s"]
        f["dense"].create_virtual_dataset("host_s", layout).attrs["units"] = numpy.bytes_(b"s")
    assert "/dense/host_s: a virtual dataset" in changed(virtual)

    # Validation goes on after a fault: every row that has one is named.
    def spoil(f):
        f["dense"]["batch"][3] = 0
        f["dense"]["status"][5] = 77
        f["dense"]["median_s"][7] = numpy.nan
        f["dense"]["device_id"][9] = b"nobody"
        f["dense"]["elsewhere"] = h5py.SoftLink("/dense/batch")
    text = changed(spoil)
    for part in ("row 3: dense: batch=0: expected 1 to", "row 5: status: code 77", "row 7: median_s nan",
                 "row 9: device_id 'nobody'", "/dense/elsewhere: a soft link", "5 problems"):
        assert part in text, text

    # A merge takes such rows along, but says so.
    def nan_time(f):
        f["dense"]["median_s"][7] = numpy.nan
    shutil.copy(corpus, "faulty.h5")
    with h5py.File("faulty.h5", "r+") as f:
        nan_time(f)
    sign("faulty.h5")
    stderr = run("corpus", "merge", "faulty.h5", "-o", "spread.h5").stderr
    assert "faulty.h5: 1 row not valid (median_s nan is not a positive finite time)" in stderr, stderr

    # What is no file, and signals: a verb that only waits is ended by them.
    os.mkfifo("pipe")
    assert "expected a file" in run("corpus", "info", "pipe", code=2).stderr
    assert "expected a file" in run("corpus", "info", "/dev/zero", code=2).stderr
    run("corpus", "merge", corpus, "-o", "pipe", code=2)
    run("corpus", "merge", "empty", "-o", "nothing.h5", code=4)
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        waiting = subprocess.Popen([FORECOST, "corpus", "import", "pipe", "--mapping", "justus2018-conv",
                                    "--device", "v100", "-o", "never.h5"])
        time.sleep(1)
        waiting.send_signal(signal_number)
        assert waiting.wait(timeout=20) == -signal_number

    # Samples that overlap or lie beyond the end are refused.
    for begin in (-1, 10**9):
        shutil.copy(corpus, "torn.h5")
        with h5py.File("torn.h5", "r+") as f:
            f["dense"]["sample_begin"][7] = begin
        sign("torn.h5")
        done = run("corpus", "validate", "torn.h5", code=4)
        assert "out of order" in done.stdout and "/dense: row" in done.stdout, done.stdout

    # Another run that says otherwise: a conflict is named and nothing is written.
    shutil.copy(corpus, "other.h5")
    with h5py.File("other.h5", "r+") as f:
        row = f["dense"]["median_s"]
        row[0] = 2 * row[0]
        f["dense"]["run_id"][:] = b"z"
        f["runs"]["id"][:] = b"z"
    sign("other.h5")
    done = run("corpus", "merge", "run", "other.h5", "-o", "both.h5", code=4)
    assert "run z has" in done.stderr and "1 conflict;" in done.stderr, done.stderr
    assert not pathlib.Path("both.h5").exists()

    # Its journals and the corpus.h5 that was merged from them say it once, and so do copies.
    done = run("corpus", "merge", "run", "run/corpus.h5", "other.h5", "other.h5", "-o", "both.h5", code=4)
    assert "1 conflict;" in done.stderr and done.stderr.count("run z has") == 1, done.stderr
    done = run("corpus", "merge", "other.h5", "run", "-o", "both.h5", code=4)
    assert "1 conflict;" in done.stderr and done.stderr.count("run z has") == 1, done.stderr

    # A replay of the same sweep measures the same, later and with another rank beside it: no conflict.
    run("collect", "sweep.toml", "-o", "again", "--backend", "replay")
    one, other = (run("corpus", "merge", *inputs, "-o", f"{inputs[0]}-first.h5") and
                  run("corpus", "export", f"{inputs[0]}-first.h5", "-o", "-").stdout
                  for inputs in (("run", "again"), ("again", "run")))
    assert one == other and len(one.splitlines()) == 41, "the order of merging counts"

    # collect meets the same conflict: each row is listed, corpus.h5 stays as it was.
    shutil.copytree("run", "contradicted")
    for suffix in ("", ".sha256"):
        shutil.copy("other.h5" + suffix, "contradicted/corpus.h5" + suffix)
    done = run("collect", "sweep.toml", "-o", "contradicted", "--backend", "replay", "--resume", code=4)
    assert "run z has" in done.stderr and "1 row of its runs contradict" in done.stderr, done.stderr
    assert pathlib.Path("contradicted/corpus.h5").read_bytes() == pathlib.Path("other.h5").read_bytes()

    # Killed before the first merge: every verb reads the journals, says so once, and writes nothing there.
    unmerged = pathlib.Path("unmerged")
    shutil.copytree("run", unmerged)
    for file in unmerged.glob("corpus.h5*"):
        file.unlink()
    held = sorted(unmerged.rglob("*"))

    def same_as_merged(*command, prepare=lambda text: text):
        """What the command says of the run, whether it is merged or not."""
        def done_of(directory):
            return run(*(str(argument).replace("RUN", directory) for argument in command))
        merged, done = done_of("run"), done_of("unmerged")
        assert "journal" not in merged.stderr, merged.stderr
        says = "unmerged: no corpus.h5 yet: read 1 journal of a run that is not merged"
        assert done.stderr.count(says) == 1, (command, done.stderr)
        assert prepare(done.stdout.replace("unmerged", "run")) == prepare(merged.stdout), (command, done.stdout)
        assert sorted(unmerged.rglob("*")) == held, command

    same_as_merged("corpus", "info", "RUN", "--json")
    same_as_merged("corpus", "info", "RUN", prepare=lambda text: "".join(
        line for line in text.replace("run/corpus.h5: ", "run: ").splitlines(True) if not line.startswith("history")))
    same_as_merged("corpus", "export", "RUN", "--samples", "-o", "-")
    same_as_merged("corpus", "diff", "RUN", corpus)
    same_as_merged("train", "RUN", "-o", "model.h5", "--epochs", "2", "--seed", "1")
    same_as_merged("evaluate", "model.h5", "RUN", "--json")
    for directory in ("run", "unmerged"):
        run("collect", "sweep.toml", "-o", f"of-{directory}", "--replay", directory)
    rows = [run("corpus", "export", f"of-{directory}", "--columns", "in_features,pass,status,median_s",
                "-o", "-").stdout for directory in ("run", "unmerged")]
    assert rows[0] == rows[1] and ",ok," in rows[0], rows
    assert "valid\n" in run("corpus", "validate", "unmerged").stdout
    run("corpus", "merge", "unmerged", "-o", "elsewhere.h5")
    assert sorted(unmerged.rglob("*")) == held

    # Its runs may contradict each other, and a directory may be none of a run.
    shutil.copytree("unmerged", "torn-apart")
    journal = next(pathlib.Path("torn-apart").rglob("journal-*"))
    shutil.copytree("of-run/runs", "torn-apart/runs", dirs_exist_ok=True)  # samples as float32: not the same
    stderr = run("corpus", "info", "torn-apart", code=4).stderr
    assert "torn-apart: its runs contradict each other" in stderr and "--on-conflict" in stderr, stderr
    for verb in (("corpus", "info", "empty"), ("corpus", "export", "empty", "-o", "-"),
                 ("corpus", "diff", "empty", "run"), ("train", "empty", "-o", "none.h5")):
        stderr = run(*verb, code=4).stderr
        assert "empty: expected a run directory" in stderr and stderr.count("\n") == 1, stderr
    damaged = bytearray(journal.read_bytes())
    damaged[len(damaged) // 2] ^= 4
    journal.write_bytes(damaged)
    stderr = run("corpus", "info", "torn-apart", code=4).stderr
    assert journal.name in stderr, stderr
    run("corpus", "merge", "unmerged", "-o", "unmerged/corpus.h5")
    assert "40 rows" in run("corpus", "info", "unmerged").stdout

    # A digest that was left behind: the message tells what to do.
    pathlib.Path("merged.h5.sha256").unlink()
    assert "copy it along" in run("corpus", "info", "merged.h5", code=4).stderr
    damaged = bytearray(corpus.read_bytes())
    damaged[1000] ^= 4
    corpus.write_bytes(damaged)
    assert "corpus.h5" in run("corpus", "info", corpus, code=4).stderr
    done = run("corpus", "validate", "run", code=4)
    assert "1 problem" in done.stdout and "corpus.h5" in done.stdout, done.stdout
    print("ok")
