"""What the end-to-end tests share: how they start the program, and read what it left.

CTest sets FORECOST_PROGRAM, FORECOST_TEST_KEYS, FORECOST_TEST_FAULTS (a library to preload, faults.c)
and FORECOST_MPIEXEC.
"""

import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["FORECOST_PROGRAM"]
KEYS = os.environ["FORECOST_TEST_KEYS"]
FAULTS = os.environ.get("FORECOST_TEST_FAULTS", "")
MPIEXEC = os.environ.get("FORECOST_MPIEXEC", "mpirun")

SWEEP = """
[sweep]
name = "test"
seed = 7

[measure]
min_samples = 5
max_samples = 20
budget_s = 0.1
warmup_budget_s = 0.05

[[dense]]
samples = {samples}
batch = {{min = 1, max = 64, scale = "log"}}
in_features = {{min = 1, max = 2000}}
out_features = {{min = 1, max = 2000}}
passes = ["forward"]
"""

# The replay backend draws a task's noise from the task's text and the sweep's seed, so that its
# samples are the same bits on any rank and in any launch. These fields tell the launch instead; the
# last three are differences of a virtual clock, and round by how long it has run.
OF_THE_LAUNCH = {"run_id", "device_id", "concurrent_ranks", "started_unix_s",
                 "first_run_s", "warmup_s", "sampling_s"}


# A published table of dense layers, and what its columns mean.
MAPPING = """
[import]
name = "table"
operator = "dense"
[parameters]
batch = {column = "batch"}
in_features = {column = "in"}
out_features = 10
[task]
pass = "forward"
dtype = "f32"
[time]
median_s = {column = "t", unit = "ms"}
[measurement]
protocol = "host_clock"
"""


def setting(name, default):
    """A number that a campaign script sets to a larger one."""
    return int(os.environ.get(name, default))


def preload(**faults):
    """The environment in which the program meets faults.c: preload(flock=95), preload(kill=3, folder=F)."""
    return {"LD_PRELOAD": FAULTS,
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
            **{"FORECOST_FAULT_" + name.upper(): str(value) for name, value in faults.items()}}


def measured(lines):
    """What rows say of their tasks, whichever launch and rank measured them."""
    rows = [json.loads(line) for line in lines]
    return sorted(json.dumps({name: value for name, value in row.items() if name not in OF_THE_LAUNCH},
                             sort_keys=True) for row in rows)


def kill_all(process):
    """SIGKILL to a launch and its ranks, whom nobody tells."""
    # mpirun makes a process group of each rank: take them first.
    children = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
    for pid in map(int, children):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    return process.wait()


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="forecost-e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.run_directory = self.folder / "run"
        self.sweep = self.write_sweep("sweep.toml", 60)

    def write_sweep(self, name, samples):
        file = self.folder / name
        file.write_text(SWEEP.format(samples=samples))
        return file

    def write_table(self, rows):
        """`corpus import` without -o, of a table with so many rows."""
        table, mapping = self.folder / "table.csv", self.folder / "mapping.toml"
        table.write_text("batch,in,t\n" + "".join(f"{i % 50 + 1},{i + 1},{i / 7 + 0.01}\n" for i in range(rows)))
        mapping.write_text(MAPPING)
        return (PROGRAM, "corpus", "import", table, "--mapping", mapping, "--device", "k80")

    # --- starting the program ---
    def command(self, *options, ranks=1, sweep=None, run_directory=None):
        launcher = [] if ranks == 1 else [MPIEXEC, "--oversubscribe", "-n", str(ranks)]
        return launcher + [
            PROGRAM, "collect", str(sweep or self.sweep), "-o",
            str(run_directory or self.run_directory), "--backend", "replay", *map(str, options)]

    def run_program(self, command, expect=0, environment=None, timeout=60):
        """`expect` is an exit code, some of them, or None for any."""
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, **(environment or {})})
        if expect is not None:
            codes = (expect,) if isinstance(expect, int) else expect
            self.assertIn(done.returncode, codes, f"{command}\n{done.stdout}{done.stderr}")
        return done

    def collect(self, *options, expect=0, environment=None, timeout=60, **how):
        return self.run_program(self.command(*options, **how), expect, environment, timeout)

    def corpus(self, verb, *arguments, **how):
        return self.run_program([PROGRAM, "corpus", verb, *arguments], **how)

    def errors(self, done):
        return [line for line in done.stderr.splitlines() if "error:" in line]

    def warnings(self, done):
        return [line for line in (done.stdout + done.stderr).splitlines() if "warning" in line]

    # --- looking at what it left ---
    def keys(self, *arguments):
        done = subprocess.run([KEYS, *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def rows(self, corpus_or_run_directory):
        """Every row, whole, a line of JSON each, sorted; of a run directory, those in its journals."""
        return self.keys("rows", corpus_or_run_directory)

    def content(self, corpus):
        """The same, and devices, environments, sweeps and runs: all but the history."""
        return self.keys("content", corpus)

    def assert_holds(self, rows, wanted, what):
        """`wanted` may be there among others."""
        lost = collections.Counter(wanted) - collections.Counter(rows)
        self.assertFalse(lost, f"{what}: {sum(lost.values())} rows are lost")

    def assert_valid(self, corpus):
        self.corpus("validate", corpus)

    def assert_complete(self, *classes, sweep=None):
        """The corpus holds each planned task of each class once, and is valid."""
        held = self.keys("corpus", self.run_directory / "corpus.h5")
        planned = self.keys("plan", sweep or self.sweep, *classes)
        self.assertEqual([key for key, n in collections.Counter(held).items() if n > 1], [])
        self.assertEqual(held, planned)
        self.assert_valid(self.run_directory / "corpus.h5")
