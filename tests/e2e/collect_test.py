"""forecost collect from outside: every exit code, stops and resumes, many ranks."""

import os
import shutil
import signal
import subprocess
import time
import unittest

from harness import PROGRAM, ProgramTest


class Refusals(ProgramTest):
    def test_a_used_directory_needs_resume(self):
        self.collect()
        self.assert_complete("replay")
        self.assertIn("--resume", self.errors(self.collect(expect=2))[0])
        self.collect("--resume")
        self.assert_complete("replay")

    def test_an_empty_directory_is_not_a_used_one_but_a_foreign_one_is(self):
        self.run_directory.mkdir()
        self.collect()
        other = self.folder / "other"
        other.mkdir()
        (other / "thesis.tex").write_text("x")
        self.collect("--resume", expect=2, run_directory=other)

    def test_a_changed_sweep_is_refused(self):
        self.collect()
        changed = self.write_sweep("changed.toml", 61)
        done = self.collect("--resume", expect=4, sweep=changed)
        self.assertIn("another sweep", self.errors(done)[0])
        self.assert_complete("replay")

    def test_a_directory_that_cannot_be_made(self):
        file = self.folder / "file"
        file.write_text("x")
        for ranks in (1, 2):
            done = self.collect(expect=3, ranks=ranks, run_directory=file / "below")
            self.assertEqual(len(self.errors(done)), 1, done.stderr)
            self.assertIn(str(file / "below"), self.errors(done)[0])
        done = self.collect(expect=2, run_directory=file)  # as of every other name of the wrong kind
        self.assertIn("file: a file, expected", self.errors(done)[0])

    def test_a_world_that_is_not_what_slurm_started(self):
        done = self.collect(expect=3, environment={"SLURM_NTASKS": "4", "SLURM_STEP_ID": "0"})
        self.assertIn("SLURM_NTASKS=4", self.errors(done)[0])
        self.assertFalse(self.run_directory.exists())

    def test_malformed_sweeps_name_file_and_line(self):
        bad = self.folder / "bad.toml"
        bad.write_text("[sweep]\nname = \"x\"\nseed = \n")
        done = self.collect(expect=2, sweep=bad)
        self.assertRegex(self.errors(done)[0], r"bad\.toml.*3")
        done = self.collect(expect=2, sweep=bad, ranks=2)
        self.assertEqual(len(self.errors(done)), 1, done.stderr)
        self.assertFalse(self.run_directory.exists())

    def test_unknown_names_list_the_known_ones(self):
        done = self.collect("--backend", "gpuu", expect=2)  # given twice: refused too
        command = self.command()
        command[command.index("replay")] = "gpuu"
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("replay", self.errors(done)[0])
        done = self.collect("--replay", "v1000", expect=2)
        self.assertIn("v100", self.errors(done)[0])
        done = self.collect("--replay", "v100:nose=1", expect=2)
        self.assertIn("noise", self.errors(done)[0])
        self.collect("--no-such-option", expect=2)
        self.collect("--shard", "3/2", expect=2)

    def test_limits_are_finite_numbers(self):
        for value, expected in (("abc", "expected a number"), ("inf", "expected a finite positive number"),
                                ("-1", "expected a finite positive number")):
            for option in ("--time-limit", "--budget"):
                self.assertIn(expected, self.errors(self.collect(option, value, expect=2))[0])
        done = self.run_program([PROGRAM, "collect", self.sweep, "--plan-only", "--cores", "1.5"], expect=2)
        self.assertIn("expected an integer", self.errors(done)[0])

    def test_many_failures_end_with_5_and_all_rows(self):
        done = self.collect("--replay", ":fail=0.3", expect=5)
        self.assertIn("--retry", self.errors(done)[0])
        self.assert_complete("replay")
        self.collect("--replay", ":fail=0", "--resume", expect=5)  # what is known stays known
        self.collect("--replay", ":fail=0", "--retry", "failed", expect=2)
        self.collect("--replay", ":fail=0", "--resume", "--retry", "ok", expect=2)
        done = self.collect("--replay", ":fail=0", "--resume", "--retry", "failed")
        self.assertIn("60 of 60 tasks: 60 ok", done.stdout)
        self.assertIn("tasks on 1 device in ", done.stdout)
        done = self.collect("--replay", ":fail=0", "--resume")
        self.assertIn("60 of 60 tasks: 60 ok; nothing was left to measure\n", done.stdout)
        self.assertNotIn("per hour", done.stdout)
        self.assertNotIn("took", done.stderr)
        other = self.folder / "other"
        self.collect("--replay", ":unsupported=0.3", run_directory=other)

    def test_a_second_launch_does_not_do_the_same_work(self):
        slow = ("--replay", "v100:real_delay_s=0.5")
        first = subprocess.Popen(self.command(*slow), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(200):
            if list(self.run_directory.glob("runs/*/journal-*")):
                break
            time.sleep(0.02)
        done = self.collect(*slow, "--resume", expect=2)
        self.assertIn("another launch", self.errors(done)[0])
        self.assertEqual(len(list(self.run_directory.glob("runs/*"))), 1)
        self.collect("--replay", "p100", "--resume")  # another class is other work
        first.kill()
        first.communicate()
        self.collect("--replay", "v100", "--resume")
        self.assert_complete("p100", "v100")

    def test_outputs_that_are_something_else_are_refused(self):
        self.collect()
        corpus = self.run_directory / "corpus.h5"
        before = corpus.read_bytes()
        for command, code in (
                (["train", str(self.run_directory), "-o", str(corpus)], 2),
                (["train", str(corpus), "-o", str(self.folder)], 2),
                (["train", str(corpus), "-o", ""], 2),
                (["train", str(corpus), "-o", str(self.folder / "no" / "m.h5")], 3),
                (["corpus", "merge", str(corpus), "-o", str(self.sweep)], 2)):
            done = subprocess.run([PROGRAM, *command], capture_output=True, text=True)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(len(self.errors(done)), 1, done.stderr)
        self.assertEqual(corpus.read_bytes(), before)
        self.assertIn("[sweep]", self.sweep.read_text())

    def test_results_that_cannot_be_written_are_no_success(self):
        for verb in (["networks"], ["devices", "--backend", "replay", "--json"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([PROGRAM, *verb], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(len(self.errors(done)), 1)

    def test_plan_only_writes_nothing(self):
        done = self.collect("--plan-only", "--replay", "v100,k80")
        for text in ("dense", "forward", "v100", "k80", "60"):
            self.assertIn(text, done.stdout)
        self.assertFalse(self.run_directory.exists())


class Stops(ProgramTest):
    SLOW = ("--replay", ":real_delay_s=0.05")

    def wait_for_rows(self, count):
        for _ in range(400):
            time.sleep(0.02)
            if not (self.run_directory / "runs").exists():
                continue
            try:
                if len(self.keys("journals", self.run_directory)) >= count:
                    return
            except AssertionError:  # a journal whose head is being written
                pass
        self.fail(f"no {count} rows after 8 s")

    def stopped(self, process):
        out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 75, out + err)
        told = [line for line in err.splitlines() if "--resume" in line]
        self.assertEqual(len(told), 1, err)
        rows = len(self.keys("corpus", self.run_directory / "corpus.h5"))
        self.assertGreater(rows, 0)
        self.assertLess(rows, 60)
        return told[0]

    def start(self, ranks):
        return subprocess.Popen(
            self.command(*self.SLOW, ranks=ranks), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True)

    def test_sigterm_to_one_process(self):
        process = self.start(1)
        self.wait_for_rows(3)
        process.send_signal(signal.SIGTERM)
        told = self.stopped(process)
        # The told command is the one that finishes the work.
        command = told.split("go on with: ")[1].replace("forecost", PROGRAM, 1)
        subprocess.run(command, shell=True, check=True, capture_output=True, timeout=30)
        self.assert_complete("replay")

    def test_sigusr1_to_all_ranks(self):
        process = self.start(3)
        self.wait_for_rows(3)
        process.send_signal(signal.SIGUSR1)  # mpirun forwards it
        self.stopped(process)
        self.collect("--resume", ranks=2)
        self.assert_complete("replay")

    def test_sigterm_to_one_rank_of_many(self):
        process = self.start(3)
        self.wait_for_rows(3)
        ranks = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True)
        os.kill(int(ranks.stdout.split()[-1]), signal.SIGTERM)
        self.stopped(process)
        self.collect("--resume", ranks=3)
        self.assert_complete("replay")

    def test_time_limit(self):
        # 12 s of delays.
        self.collect("--replay", ":real_delay_s=0.4", "--time-limit", "4", expect=75, ranks=2)
        self.assertLess(len(self.keys("corpus", self.run_directory / "corpus.h5")), 60)
        self.collect("--resume")
        self.assert_complete("replay")

    def test_time_limit_counts_the_probe_and_what_comes_before(self):
        for ranks in (1, 2):
            # The second rank's probe alone: the first one waits, and must not wait longer.
            slow = "v100:real_probe_s=60" if ranks == 1 else "v100,v100:real_probe_s=60"
            begin = time.monotonic()
            done = self.collect("--replay", slow, "--resume", "--time-limit", "2", expect=75, ranks=ranks, timeout=30)
            self.assertLess(time.monotonic() - begin, 20)
            self.assertEqual(len(self.warnings(done)), 1, done.stderr)
            self.assertIn("--time-limit 2 was over while probing devices", done.stderr)
            self.assertIn("go on, with a larger limit, with: ", done.stderr)
            self.assertEqual(self.errors(done), [])
        done = self.collect("--replay", "v100", "--resume", "--time-limit", "0.000001", expect=75)
        self.assertIn("was over while planning the sweep", done.stderr)
        self.collect("--replay", "v100", "--resume")
        self.assert_complete("v100")

    def test_a_signal_ends_the_probe(self):
        process = subprocess.Popen(self.command("--replay", ":real_probe_s=60"), stderr=subprocess.PIPE, text=True)
        while not list(self.run_directory.glob("runs/*/in-flight-*")):
            self.assertIsNone(process.poll())
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=30)[1]
        self.assertEqual(process.returncode, 75, told)
        self.assertIn("asked to by a signal while probing devices", told)

    def test_budget(self):
        # 36 ms of the virtual clock; a task takes 3.
        self.collect(*self.SLOW, "--budget", "0.00001", expect=75, ranks=2)
        self.assertLess(len(self.keys("corpus", self.run_directory / "corpus.h5")), 60)
        self.collect("--resume", "--budget", "10")
        self.assert_complete("replay")

    def test_shards_share_a_directory(self):
        for shard in ("1/3", "2/3", "3/3"):
            self.collect("--shard", shard)
        self.assert_complete("replay")
        self.collect("--shard", "2/3", expect=2)

    def test_a_lost_corpus_comes_back_from_the_journals_and_the_other_way_round(self):
        self.collect()
        (self.run_directory / "corpus.h5").write_bytes(b"rubbish")
        self.collect("--resume")
        self.assert_complete("replay")
        shutil.rmtree(self.run_directory / "runs")
        self.collect("--resume")
        self.assert_complete("replay")


class Poison(ProgramTest):
    """A device that a task leaves without answers (MEASURING.md rule 13)."""
    POISON = ("--replay", ":poison=0.05")

    def test_one_process_starts_anew_until_all_is_done(self):
        done = self.collect(*self.POISON, "--budget", "5", "--time-limit=50", expect=5)
        self.assert_complete("replay")
        self.assertIn("60 of 60 tasks", done.stdout)
        self.assertEqual(done.stdout.count(" of 60 tasks"), 1)
        launches = len(list(self.run_directory.glob("runs/*")))
        self.assertGreater(launches, 1)
        self.assertEqual(done.stderr.count("starts anew"), launches - 1)
        failed = [row for row in self.rows(self.run_directory / "corpus.h5") if "answers nothing" in row]
        self.assertIn(len(failed), (launches - 1, launches))

    def test_many_ranks_drain_and_tell_how_to_go_on(self):
        for _ in range(30):
            done = self.collect(*self.POISON, "--resume", ranks=2, expect=(75, 5))
            if done.returncode == 5:
                break
            self.assertIn("answers nothing", done.stderr)
            self.assertIn("go on with: mpirun -n 2 ", done.stderr)
        self.assertEqual(done.returncode, 5)
        self.assertGreater(len(list(self.run_directory.glob("runs/*"))), 1)
        self.assert_complete("replay")


class ManyRanks(ProgramTest):
    CLASSES = ("v100", "p100", "gtx-1080-ti", "k80", "t4", "a100-40gb", "h100", "l4")

    def test_64_ranks_of_8_classes(self):
        done = self.collect("--replay", ",".join(self.CLASSES), ranks=64, timeout=150)
        self.assert_complete(*self.CLASSES)
        self.assertIn(f"{60 * len(self.CLASSES)} of {60 * len(self.CLASSES)} tasks", done.stdout)

    def test_a_rank_without_device_manages(self):
        self.collect("--replay", "v100,none,p100", ranks=3)
        self.assert_complete("v100", "p100")
        names = sorted(file.name for file in self.run_directory.glob("runs/*/journal-*"))
        self.assertEqual(names, ["journal-0", "journal-2"])
        self.collect("--replay", "none", run_directory=self.folder / "nobody", expect=3)

    def test_the_corpus_is_replayed(self):
        self.collect("--replay", "v100:noise=0,t4:noise=0", ranks=2)
        corpus = self.run_directory / "corpus.h5"
        self.run_directory = self.folder / "second"
        self.collect("--replay", f"{corpus}:noise=0", ranks=2)
        self.assert_complete("t4", "v100")


if __name__ == "__main__":
    unittest.main()
