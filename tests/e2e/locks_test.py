"""Several writers of one corpus, and file systems whose locks do not work.

FORECOST_ROUNDS is how often the merges race (3).
"""

import errno
import fcntl
import shutil
import subprocess
import time
import unittest

from harness import PROGRAM, ProgramTest, measured, preload, setting


class NoLocks(ProgramTest):
    """flock() fails as on some NFS and Lustre mounts: one warning of each launch, and all goes well."""

    def preloaded(self, error, command):
        """The program of a command, not what launches it, with locks that fail."""
        at = command.index(PROGRAM)
        faults = [f"{name}={value}" for name, value in preload(flock=error).items()]
        return [*command[:at], "env", *faults, *command[at:]]

    def test_collect(self):
        self.sweep = self.write_sweep("sweep.toml", 30)
        self.collect("--replay", "v100", ranks=2)
        whole = self.rows(self.run_directory / "corpus.h5")
        for error in (errno.ENOLCK, errno.EOPNOTSUPP):
            with self.subTest(errno.errorcode[error]):
                shutil.rmtree(self.run_directory)
                many_merges = ("--replay", "v100:real_delay_s=0.02", "--merge-interval", "0.05")
                done = self.run_program(self.preloaded(error, self.command(*many_merges, ranks=2)))
                self.assertEqual(len(self.warnings(done)), 1, done.stderr)
                self.assertIn("locks do not work", self.warnings(done)[0])
                self.assert_complete("v100")
                self.assertEqual(measured(self.rows(self.run_directory / "corpus.h5")), measured(whole))

    def test_merge(self):
        inputs = []
        for device in ("v100", "p100"):
            inputs.append(self.folder / device)
            self.collect("--replay", device, run_directory=inputs[-1])
        for error in (errno.ENOLCK, errno.EOPNOTSUPP):
            with self.subTest(errno.errorcode[error]):
                output = self.folder / f"{error}.h5"
                done = self.run_program(self.preloaded(
                    error, [PROGRAM, "corpus", "merge", *map(str, inputs), "-o", str(output)]))
                self.assertEqual(len(self.warnings(done)), 1, done.stderr)
                self.assert_valid(output)
                self.assertEqual(self.rows(output), sorted(self.rows(inputs[0]) + self.rows(inputs[1])))


class AtOnce(ProgramTest):
    DEVICES = ("v100", "p100", "t4", "k80")

    def setUp(self):
        super().setUp()
        self.sweep = self.write_sweep("sweep.toml", 300)
        for device in self.DEVICES:
            self.collect("--replay", device, run_directory=self.folder / device)
        self.output = self.folder / "all.h5"

    def start(self, command):
        return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)

    def start_merge(self, *inputs, output=None):
        return self.start([PROGRAM, "corpus", "merge", *inputs, "-o", output or self.output])

    def test_merges_into_one_corpus(self):
        waited = 0
        rounds = setting("FORECOST_ROUNDS", 3)
        for race in range(rounds):
            for file in self.folder.glob("all.h5*"):
                file.unlink()
            started = self.DEVICES[:2 + race % 3]
            merges = {device: self.start_merge(self.folder / device) for device in started}
            wanted = []
            for device, merge in merges.items():
                out, err = merge.communicate(timeout=60)
                self.assertIn(merge.returncode, (0, 3), out + err)
                if merge.returncode == 0:
                    wanted += self.rows(self.folder / device)
                waited += merge.returncode == 0
            self.assert_valid(self.output)
            self.assertEqual(self.rows(self.output), sorted(wanted))
        print(f"{rounds} races of 2 to 4 merges: {waited} of them merged, the others ended with 3")

    def test_one_waits_for_the_other(self):
        self.corpus("merge", self.folder / "v100", "-o", self.output)
        before = self.output.read_bytes()
        with open(self.folder / ".all.h5.merge-lock", "r+") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            merge = self.start_merge(self.folder / "p100")
            with self.assertRaises(subprocess.TimeoutExpired):
                merge.wait(0.5)
            self.assertEqual(self.output.read_bytes(), before)
        out, err = merge.communicate(timeout=60)
        self.assertEqual(merge.returncode, 0, out + err)
        self.assertEqual(self.rows(self.output),
                         sorted(self.rows(self.folder / "v100") + self.rows(self.folder / "p100")))

    def test_merges_beside_a_collecting_run(self):
        self.sweep = self.write_sweep("other.toml", 60)
        run = self.start(self.command("--replay", "h100:real_delay_s=0.02", "--merge-interval", "0.05",
                                      ranks=2))
        corpus = self.run_directory / "corpus.h5"
        while not corpus.exists():
            self.assertIsNone(run.poll(), run.stderr)
            time.sleep(0.02)
        merges = 0
        inputs = [self.folder / device for device in self.DEVICES]
        wanted = []
        while run.poll() is None:
            source = inputs[merges % len(inputs)]
            self.corpus("merge", source, "-o", corpus)
            wanted += self.rows(source) if merges < len(inputs) else []
            merges += 1
            self.assert_holds(self.rows(corpus), wanted, "corpus.h5")
        out, err = run.communicate()
        self.assertEqual(run.returncode, 0, out + err)
        self.assertGreater(merges, 0)
        self.assert_valid(corpus)
        self.assertEqual(self.rows(corpus), sorted(wanted + self.rows(self.run_directory)))
        self.assertEqual(self.keys("journals", self.run_directory), self.keys("plan", self.sweep, "h100"))
        print(f"{merges} merges beside a collecting run")

    def test_jobs_that_share_a_directory(self):
        jobs = [self.start(self.command("--replay", "h100:real_delay_s=0.005", "--merge-interval", "0.05",
                                        "--shard", f"{shard}/3")) for shard in (1, 2, 3)]
        for job in jobs:
            out, err = job.communicate(timeout=120)
            self.assertEqual(job.returncode, 0, out + err)
            self.assertEqual(err.count("warning"), 0, err)
        self.assert_complete("h100")


if __name__ == "__main__":
    unittest.main()
