"""`forecost corpus import` as users meet it: exit codes, what is written and what is not.

    import_cli_test.py FORECOST
"""
import csv
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import h5py

FORECOST = sys.argv[1]
CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"
HEADER = ("batchsize,dim_input,dim_output,precision,activation_fct,optimizer,gpu,timeUsed_median,"
          "timeUsed_min,timeUsed_max,timeUsed_std\n")


def row(batch=1, median=2.0, gpu=0):
    return f"{batch},20,30,32,1,5,{gpu},{median},1.5,2.5,0.25\n"


def check(ok, what):
    if not ok:
        sys.exit(f"import_cli_test: {what}")


def run(*arguments, code=0):
    done = subprocess.run([FORECOST, "corpus", *map(str, arguments)], capture_output=True, text=True,
                          check=False)
    check(done.returncode == code, f"{arguments}: exit code {done.returncode} instead of {code}:\n"
          f"{done.stdout}{done.stderr}")
    return done


def importing(*tables, code=0, mapping="justus2018-dense", device="k80", corpus="c.h5", more=()):
    return run("import", *tables, "--mapping", mapping, "--device", device, "-o", corpus, *more, code=code)


def table(name, *rows):
    pathlib.Path(name).write_text(HEADER + "".join(rows))
    return name


def state():
    """Of every file here that a corpus consists of."""
    return {name: (pathlib.Path(name).read_bytes(), os.stat(name).st_mtime_ns)
            for name in ("c.h5", "c.h5.sha256") if os.path.exists(name)}


def test_bad_rows_are_counted_and_listed():
    bad = [row(batch=0)] * 25 + ["1,2\n"]
    done = importing(table("a.csv", row(1), *bad, row(2)), more=["--rejects", "bad.csv"])
    check("a.csv: 28 rows: 2 imported, 26 refused, 0 filtered out\n" in done.stdout, done.stdout)
    lines = done.stderr.splitlines()
    check("c.h5: 2 rows\n" in done.stdout, done.stdout)
    check(lines[0] == "a.csv:3: column 'batchsize' = '0': expected an integer 1 to 1048576", lines[0])
    check(sum(line.startswith("a.csv:") for line in lines) == 20, done.stderr)
    check("25 rows refused: column 'batchsize': expected an integer 1 to 1048576" in lines, lines)
    check("1 row refused: expected # fields, as the first row has, found #" in lines, lines)
    with open("bad.csv", newline="") as file:
        listed = list(csv.DictReader(file))
    check(len(listed) == 26 and listed[25] == {
        "file": "a.csv", "line": "28", "column": "", "value": "",
        "reason": "expected 11 fields, as the first row has, found 2"}, listed[-1])
    run("validate", "c.h5")


def test_rejects_replace_nothing_but_earlier_ones():
    importing(table("a.csv", row(1), row(0)))
    shutil.copy("c.h5", "other.h5")
    pathlib.Path("mine.toml").write_bytes(
        (CONFIGS / "import" / "justus2018-dense.toml").read_bytes())
    pathlib.Path("device.toml").write_bytes((CONFIGS / "devices" / "k80.toml").read_bytes())
    pathlib.Path("notes.txt").write_text("notes\n")
    os.symlink("a.csv", "link.csv")
    os.link("a.csv", "hard.csv")
    before = {path: path.read_bytes() for path in pathlib.Path(".").iterdir()}

    def refused(name, words, *more):
        done = importing("a.csv", code=2, mapping="mine.toml", device="device.toml",
                         more=["--rejects", name, *more])
        check(words in done.stderr and done.stderr.count("\n") == 1, (name, done.stderr))
        check(before == {path: path.read_bytes() for path in pathlib.Path(".").iterdir()},
              f"--rejects {name} changed a file")

    for name in ("a.csv", "link.csv", "hard.csv", "mine.toml", "device.toml", "c.h5", "c.h5.sha256",
                 "other.h5", "notes.txt", "./a.csv"):
        refused(name, f"--rejects {name}: it exists and is no list of rejects: name another file")
    refused("/dev/stdout", "/dev/stdout: a pipe or device")
    refused("/dev/null", "/dev/null: a pipe or device")
    refused(".", "a directory")
    refused("-", "--rejects -: expected the name of a file")
    for name in ("d.h5", "d.h5.sha256", "../" + os.path.basename(os.getcwd()) + "/d.h5"):
        done = importing("a.csv", code=2, corpus="d.h5", more=["--rejects", name])
        check("this import uses that file" in done.stderr and not os.path.exists("d.h5"), done.stderr)
    check("--output -: expected" in importing("a.csv", code=2, corpus="-").stderr, "-o -")

    with open("out.csv", "wb") as out:  # empty, as a list of rejects may be, but in use
        done = subprocess.run([FORECOST, "corpus", "import", "a.csv", "--mapping", "mine.toml", "--device",
                               "k80", "-o", "d.h5", "--rejects", "out.csv"], stdout=out, check=False,
                              stderr=subprocess.PIPE, text=True)
    check(done.returncode == 2 and "as /dev/stdout: name another" in done.stderr, done.stderr)
    with subprocess.Popen(["cat", "a.csv"], stdout=subprocess.PIPE) as cat:
        done = subprocess.run([FORECOST, "corpus", "import", "/dev/stdin", "--mapping", "mine.toml", "--device",
                               "k80", "-o", "d.h5", "--rejects", "piped.csv"], stdin=cat.stdout,
                              capture_output=True, check=False, text=True)
    check(done.returncode == 0 and os.path.exists("piped.csv"), done.stderr)

    importing("a.csv", corpus="e.h5", more=["--rejects", "bad.csv"])
    check(len(pathlib.Path("bad.csv").read_text().splitlines()) == 2, "a list of one")
    listed = pathlib.Path("bad.csv").read_text()
    done = importing("bad.csv", code=2, corpus="e.h5", more=["--rejects", "bad.csv"])
    check("--rejects bad.csv: this import uses that file" in done.stderr, done.stderr)
    check(pathlib.Path("bad.csv").read_text() == listed, "an input was replaced")
    # An old list is not to be taken for one of an import that refused no row.
    importing(table("b.csv", row(3)), corpus="e.h5", more=["--rejects", "bad.csv"])
    check(pathlib.Path("bad.csv").read_text() == listed.splitlines(True)[0], "the list of none")
    pathlib.Path("empty.csv").touch()
    importing(table("f.csv", row(4)), corpus="e.h5", more=["--rejects", "empty.csv"])
    check(pathlib.Path("empty.csv").read_text() == listed.splitlines(True)[0], "an empty file")
    importing("empty.csv", code=4, corpus="e.h5")


def test_strict_writes_nothing():
    done = importing(table("a.csv", row(1), row(0)), code=4, more=["--strict"])
    check("error: a.csv:3: column 'batchsize' = '0': expected an integer 1 to 1048576" in done.stderr,
          done.stderr)
    check(not os.path.exists("c.h5"), "--strict wrote a corpus")
    check("c.h5: 1 row\n" in importing(table("b.csv", row(1))).stdout, "of one row")
    before = state()
    importing("a.csv", code=4, more=["--strict"])
    check(state() == before, "--strict changed a corpus")


def test_no_row_is_an_error():
    done = importing(table("a.csv", row(0)), code=4)
    check("no row was imported; nothing was written" in done.stderr, done.stderr)
    importing(table("a.csv"), code=4)
    check(not os.path.exists("c.h5"), "an empty corpus")


def test_a_second_import_changes_nothing():
    importing(table("a.csv", row(1), row(1, 2.25), row(2, gpu=1)))
    before = state()
    check(len(before) == 2, before)
    done = importing("a.csv")
    check(state() == before, "a second import wrote")
    check("nothing new" in done.stdout, done.stdout)
    importing(table("b.csv", row(7)))
    with h5py.File("c.h5") as corpus:
        dense = corpus["dense"]
        check(sorted(zip(dense["batch"][:], dense["replicate"][:], dense["source_line"][:]))
              == [(1, 0, 2), (1, 1, 3), (2, 0, 4), (7, 0, 2)], "the rows of both tables")
        check(len(corpus["devices/device_class"]) == 2, "two GPUs of a class are two devices")
        check(len(corpus["runs/id"]) == 2, "a run per table")


def test_a_contradiction_is_a_conflict():
    importing(table("a.csv", row(1, 2.0)))
    before = state()
    done = importing(table("b.csv", row(1, 2.25)), code=4)
    check(state() == before and "import-" in done.stderr, done.stderr)
    importing("b.csv", more=["--on-conflict", "newest"])
    with h5py.File("c.h5") as corpus:
        check(corpus["dense/median_s"][:].tolist() == [2.25 / 1e3], "newest was not kept")


def test_usage():
    table("a.csv", row())
    for arguments, words in (
            ((), "expected CSV files"),
            (("a.csv", "--mapping", "justus2018-dens"), "(did you mean 'justus2018-dense'?)"),
            (("a.csv", "--mapping", "justus2018-dense"), "does not tell the device: expected --device"),
            (("a.csv", "--mapping", "justus2018-dense", "--device", "k8o"), "unknown device 'k8o'"),
            (("a.csv", "--mapping", "neusight-matmul", "--device", "k80"), "leave --device out"),
            (("a.csv", "--mapping", "justus2018-dense", "--device", "k80", "--fact", "x"), "NAME=VALUE"),
            (("a.csv", "--mapping", "justus2018-dense", "--device", "k80", "--fact", "x=a\nb"),
             "--fact x=a\\x0ab: expected UTF-8 text of one line")):
        mapping = () if "--mapping" in arguments else ("--mapping", "justus2018-dense")
        done = run("import", *arguments, *mapping, "-o", "c.h5", code=2)
        check(words in done.stderr and done.stderr.count("\n") == 1, done.stderr)
    done = importing("a.csv", code=4, mapping="justus2018-conv")
    check("a.csv:1: unknown column 'matsize'; known: batchsize, dim_input" in done.stderr, done.stderr)
    done = importing("none.csv", code=3)
    check("none.csv: cannot be read" in done.stderr, done.stderr)
    check(not os.path.exists("c.h5"), "a corpus came of it")


if __name__ == "__main__":
    FORECOST = os.path.abspath(FORECOST)
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            with tempfile.TemporaryDirectory() as directory:
                os.chdir(directory)
                test()
                os.chdir("/")
