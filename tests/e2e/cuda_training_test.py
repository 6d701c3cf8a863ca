"""Training on GPUs, as far as it goes without one: the program and its CUDA module against the stand-in."""

import json
import os
import signal
import subprocess
import time
import unittest

from harness import MPIEXEC, PROGRAM, kill_all
from standin import StandInTest, gpu

FOUR = [gpu(i) for i in range(4)]


class CudaTraining(StandInTest):
    def setUp(self):
        super().setUp()
        self.run_program(self.command("--replay", "h100", sweep=self.write_sweep("corpus.toml", 300)))
        self.corpus_file = self.run_directory / "corpus.h5"
        self.checkpoint = self.folder / "checkpoint"

    def train(self, model, *options, ranks=1, expect=0, environment=None, device="cuda", epochs=3):
        return self.run_program(self.training(model, *options, ranks=ranks, device=device, epochs=epochs), expect,
                                environment or self.standin(FOUR), timeout=200)

    def training(self, model, *options, ranks=1, device="cuda", epochs=3):
        launcher = [] if ranks == 1 else [MPIEXEC, "--oversubscribe", "-n", str(ranks)]
        return [*launcher, PROGRAM, "train", str(self.corpus_file), "-o", str(self.folder / model), "--epochs",
                str(epochs), "--device", device, *map(str, options)]

    def predicted(self, model):
        done = self.run_program([PROGRAM, "predict", self.folder / model, "--network", "vgg-small", "--batch", "8",
                                 "--device", "h100", "--json"])
        return json.loads(done.stdout)["predictions"][0]["passes"]["forward_s"]

    def assert_told_of_a_lost_rank(self, done):
        self.assertRegex(done.stderr, "presumed dead|is lost|lost")
        self.assertNotIn("saved", done.stdout)

    def test_models_are_the_cpus(self):
        self.train("cpu.h5", device="cpu")
        expected = self.predicted("cpu.h5")
        for ranks, options in ((1, ()), (2, ()), (2, ("--ranks-per-model", 2)), (4, ("--ranks-per-model", 4)),
                               (4, ("--ranks-per-model", 2))):
            with self.subTest(ranks=ranks, options=options):
                done = self.train("gpu.h5", *options, ranks=ranks)
                self.assertIn("on Stand-in GPU", done.stderr)
                self.assertAlmostEqual(self.predicted("gpu.h5") / expected, 1, delta=1e-3)
                self.assert_kept_the_protocol()

    def test_auto_takes_gpus_where_each_rank_has_one(self):
        self.assertIn("on Stand-in GPU", self.train("a.h5", device="auto", epochs=1).stderr)
        for environment, options in ((self.standin(driver_version=0), ()), (self.standin(FOUR), ("--deterministic",))):
            done = self.train("b.h5", *options, device="auto", epochs=1, environment=environment)
            self.assertIn("matrix products by", done.stderr)
        # Not without a word where there is one.
        done = self.train("c.h5", device="auto", epochs=1, ranks=2, environment=self.standin([gpu(0)]))
        self.assertIn("matrix products by", done.stderr)
        self.assertRegex(done.stderr, "warning: training on CPUs, although there is a GPU: .*same GPU")

    def test_what_does_not_fit_is_refused(self):
        for options, device, environment, ranks, code, words in (
                (("--deterministic",), "cuda", None, 1, 2, "--deterministic"),
                (("--precision", "bf16"), "cpu", None, 1, 2, "--precision bf16"),
                (("--precision", "f8"), "cuda", None, 1, 2, "unknown precision"),
                ((), "gpu", None, 1, 2, "unknown training device"),
                ((), "cuda", self.standin(driver_version=0), 1, 3, "driver"),
                ((), "cuda", self.standin([gpu(0), gpu(1)]), 3, 3, "has no GPU to train on"),
                ((), "cuda", self.standin([gpu(0), gpu(0)]), 2, 3, "the same GPU")):
            with self.subTest(words=words):
                done = self.train("x.h5", *options, device=device, environment=environment or self.standin(FOUR),
                                  ranks=ranks, expect=code)
                (line,) = self.errors(done)
                self.assertIn(words, line)

    def test_memory_that_is_not_enough(self):
        done = self.train("x.h5", expect=3, environment=self.standin([gpu(0, memory_bytes=2**25)]))
        (line,) = self.errors(done)
        self.assertIn(gpu(0)["uuid"], line)
        self.assertIn("--batch", line)

    def test_a_device_that_fails(self):
        done = self.train("x.h5", expect=3, environment=self.standin(FOUR, faults={"sticky_launch": 50}))
        (line,) = self.errors(done)
        self.assertIn(gpu(0)["uuid"], line)
        self.assertIn("--resume", line)

    # --- ranks that are lost ---
    def test_a_rank_that_falls_silent_ends_all_and_the_checkpoint_goes_on(self):
        options = ("--ranks-per-model", 4, "--collective-timeout", 3, "--checkpoint", self.checkpoint)
        for faults in ({"nccl_silent_rank": {"rank": 2, "after": 60}}, {"nccl_async_error": 60}):
            with self.subTest(faults=faults):
                begin = time.monotonic()
                done = self.train("a.h5", *options, ranks=4, expect=70, epochs=30,
                                  environment=self.standin(FOUR, faults=faults, hang_s=120))
                self.assertLess(time.monotonic() - begin, 100)  # or nobody looked at the time
                self.assert_told_of_a_lost_rank(done)
        # Without the short timeout: four ranks of the stand-in may be slower than that on two cores.
        self.train("a.h5", "--ranks-per-model", 4, "--checkpoint", self.checkpoint, "--resume", ranks=4, epochs=30)

    def test_a_killed_rank_ends_all_and_the_checkpoint_goes_on(self):
        options = ("--ranks-per-model", 4, "--collective-timeout", 10, "--checkpoint", self.checkpoint)
        for how in (signal.SIGKILL, signal.SIGSTOP):
            with self.subTest(how=how):
                process = subprocess.Popen(
                    self.training("a.h5", *options, "--resume", ranks=4, epochs=300), start_new_session=True,
                    env={**os.environ, **self.standin(FOUR)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.addCleanup(kill_all, process)
                before = {file: file.stat().st_mtime_ns for file in self.checkpoint.glob("*.h5")}
                deadline = time.monotonic() + 120
                while time.monotonic() < deadline:
                    now = {file: file.stat().st_mtime_ns for file in self.checkpoint.glob("*.h5")}
                    if now != before:
                        break
                    time.sleep(0.1)
                self.assertNotEqual(now, before, "no checkpoint was written")
                ranks = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
                os.kill(int(ranks[1]), how)
                output, errors = process.communicate(timeout=90)
                self.assertNotEqual(process.returncode, 0, errors)
        done = self.train("a.h5", *options, "--resume", ranks=2, epochs=300, device="cpu", expect=2)
        self.assertIn("--ranks-per-model", done.stderr)
        self.train("a.h5", "--checkpoint", self.checkpoint, "--resume", epochs=300, device="cpu")


if __name__ == "__main__":
    unittest.main()
