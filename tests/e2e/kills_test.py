"""Kills and resumes: whatever is killed, and whenever, the end is that of a run without kills.

FORECOST_KILLS is how often collect, and merge and import, are killed at random moments (3;
scripts/kill-campaign.sh asks for more), FORECOST_KILL_SEED their moments; FORECOST_KILL_EVERY is the
step from one call of a program to the next at which it is killed (5).
"""

import collections
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from harness import PROGRAM, ProgramTest, kill_all, measured, preload, setting

KILLS = setting("FORECOST_KILLS", 3)
SEED = setting("FORECOST_KILL_SEED", 1)
EVERY = setting("FORECOST_KILL_EVERY", 5)


class Collect(ProgramTest):
    def test_a_kill_while_the_directory_is_opened(self):
        """What a launch leaves that dies before its sweep is copied is no run directory in use."""
        (self.run_directory / "runs").mkdir(parents=True)
        (self.run_directory / "sweep.toml.tmp-1234").write_text("[swe")
        (self.run_directory / ".forecost-probe-1234").write_text("pro")
        self.collect("--replay", "v100", "--resume")
        self.assert_complete("v100")

    def uninterrupted(self, *options, ranks=1, expect=0):
        """The rows of the same sweep without kills."""
        directory = self.folder / "uninterrupted"
        self.collect(*options, run_directory=directory, ranks=ranks, expect=expect, timeout=300)
        return self.rows(directory / "corpus.h5")

    def journal_bytes(self):
        return sum(file.stat().st_size for file in self.run_directory.glob("runs/*/journal-*"))

    def launch_and_kill(self, command, after_s, measuring=False):
        """Some time after it began, or began measuring. Returns the exit code of one that ended before."""
        measures = self.journal_bytes() + 4000  # two heads, and a row at least
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        while measuring and self.journal_bytes() < measures and process.poll() is None:
            time.sleep(0.01)
        try:
            return process.wait(after_s)
        except subprocess.TimeoutExpired:
            kill_all(process)
            return None

    def assert_nothing_lost(self, committed, merged):
        """Returns the rows that the journals and corpus.h5 hold now."""
        if (self.run_directory / "runs").exists():
            now = self.rows(self.run_directory)
            self.assert_holds(now, committed, "journals")
            committed = now
        corpus = self.run_directory / "corpus.h5"
        if merged:
            self.assertTrue(corpus.exists(), "corpus.h5 is gone")
        if corpus.exists():
            self.assert_valid(corpus)
            now = self.rows(corpus)
            self.assert_holds(now, merged, "corpus.h5")
            merged = now
        return committed, merged

    def test_kill_at_random_moments(self):
        moments = random.Random(SEED)
        # Each launch gets through a part, so that kills meet every phase: start, run, merge.
        samples = 60 * KILLS
        self.sweep = self.write_sweep("sweep.toml", samples)
        slow = ("--replay", "v100:real_delay_s=0.04", "--resume", "--merge-interval", "0.2")
        committed, merged = [], []
        kills = launches = 0
        while kills < KILLS:
            launches += 1
            self.assertLess(launches, 3 * KILLS, "the sweep is too short for so many kills")
            code = self.launch_and_kill(self.command(*slow, ranks=2), moments.uniform(0.1, 1.5),
                                        measuring=kills % 2 == 0)
            self.assertIn(code, (None, 0))
            kills += code is None
            committed, merged = self.assert_nothing_lost(committed, merged)
        print(f"collect: {kills} kills; {len(committed)} of {samples} rows in journals and "
              f"{len(merged)} in corpus.h5 before the last launch")
        self.collect("--replay", "v100", "--resume", ranks=2, timeout=300)
        self.assert_nothing_lost(committed, merged)
        self.assert_complete("v100")
        rows = self.rows(self.run_directory / "corpus.h5")
        self.assertEqual(measured(rows), measured(self.uninterrupted("--replay", "v100", ranks=2)))

    def test_a_rank_that_kills_itself_loses_nothing_finished(self):
        committed = []
        for _ in range(100):
            done = self.collect("--replay", ":crash=0.1", "--resume", ranks=2, expect=None)
            committed, _ = self.assert_nothing_lost(committed, [])
            if done.returncode in (0, 5):  # 5: a task was in hand at two deaths
                break
        self.assert_complete("replay")

    def test_tasks_that_kill_their_process_are_found_out(self):
        launches = 0
        while True:
            launches += 1
            self.assertLess(launches, 40)
            done = self.collect("--replay", ":kill=0.05", "--resume", expect=None)
            if done.returncode != -signal.SIGKILL:
                break
        killers = (launches - 1) // 2  # each dies twice, then one launch goes to the end
        self.assertGreater(killers, 0, "no task of this sweep kills")
        self.assertEqual(launches, 2 * killers + 1)
        self.assertEqual(done.returncode, 5, done.stdout + done.stderr)
        self.assertIn(f"{killers} crashed", done.stdout)
        self.assert_complete("replay")
        # What is known is not tried again.
        self.collect("--replay", ":kill=0.05", "--resume", expect=5)

    def test_a_sweep_that_fails_in_part_resumes_to_the_same_end(self):
        """30 % of the tasks fail, others are unsupported or throttled; kills and stops in between."""
        faults = ":fail=0.3:unsupported=0.1:throttle=0.1"
        self.sweep = self.write_sweep("sweep.toml", 120)
        slow = faults + ":real_delay_s=0.05"
        for _ in range(2):
            launch = self.command("--replay", slow, "--resume", ranks=2)
            self.assertIsNone(self.launch_and_kill(launch, 0.2, measuring=True))
        stopped = self.collect("--replay", slow, "--resume", "--time-limit", "0.5", expect=75)
        self.assertEqual(len([line for line in self.warnings(stopped) if "stopped early" in line]), 1, stopped.stderr)
        before = self.rows(self.run_directory)
        self.assertLess(0, len(before))
        self.assertLess(len(before), 120)
        done = self.collect("--replay", faults, "--resume", expect=5)
        self.assert_complete("replay")
        whole = self.uninterrupted("--replay", faults, expect=5)
        rows = self.rows(self.run_directory / "corpus.h5")
        self.assertEqual(measured(rows), measured(whole))
        # No task was measured twice, not even one that failed.
        tasks = collections.Counter(self.keys("journals", self.run_directory))
        self.assertEqual(set(tasks.values()), {1})
        self.assertEqual(len(tasks), 120)
        failed = sum('"status":"failed"' in row for row in rows)
        self.assertIn(f"{failed} failed", done.stdout)
        self.assertGreater(failed, 20)


class MergingTest(ProgramTest):
    """What is killed here adds to a corpus."""

    TASKS = 1000
    FAULTS = ":fail=0.1"

    def setUp(self):
        super().setUp()
        self.sweep = self.write_sweep("sweep.toml", self.TASKS)
        for device in ("v100", "p100", "t4"):
            self.collect("--replay", device + self.FAULTS, expect=5, run_directory=self.folder / device)

    def scenarios(self):
        """(what, the corpus that is there before, command without -o, output)"""
        v100, p100, t4 = (self.folder / device for device in ("v100", "p100", "t4"))
        merge = (PROGRAM, "corpus", "merge")
        # An input beside its output: only its journals are new.
        remade = self.folder / "remade"
        shutil.copytree(v100 / "runs", remade / "runs")
        return (
            ("merge of directories into a new corpus", None, (*merge, v100, p100), self.folder / "new.h5"),
            ("merge of journals into the corpus beside them", t4 / "corpus.h5", (*merge, remade),
             remade / "corpus.h5"),
            ("import into a corpus", t4 / "corpus.h5", self.write_table(self.TASKS),
             self.folder / "imported.h5"),
            ("merge of a directory into a corpus", v100 / "corpus.h5", (*merge, p100),
             self.folder / "grown.h5"),
            ("merge of corpora into one", t4 / "corpus.h5",
             (*merge, v100 / "corpus.h5", p100 / "corpus.h5"), self.folder / "all.h5"))

    def begin(self, before, output):
        """Leaves the output as it was before: that corpus, or nothing."""
        for file in output.parent.glob(output.name + "*"):
            file.unlink()
        if before:
            shutil.copy(before, output)
            shutil.copy(f"{before}.sha256", f"{output}.sha256")

    def leftovers(self, output):
        return list(output.parent.glob(output.name + "*.tmp-*"))

    def old_or_new(self, before, output, new):
        """Which of them the output is, which is whole at any rate."""
        if not output.exists():
            self.assertIsNone(before, f"{output} is gone")
            return "old"
        if before and output.read_bytes() == before.read_bytes():
            self.rows(output)  # its digest fits too
            return "old"
        self.assert_is(output, new)
        return "new"

    def assert_is(self, output, new):
        self.assert_valid(output)
        self.assertEqual(self.content(output), new)

    def finish(self, command, output, new):
        killed = output.read_bytes() if output.exists() else b""
        self.run_program([*command, "-o", output])
        if output.read_bytes() != killed:
            self.assert_is(output, new)
        # Where nothing was left to write, what the kill left of a digest file stays, some 100 bytes.
        self.assertEqual(list(output.parent.glob(output.name + ".tmp-*")), [])

    def uninterrupted(self, before, command, output):
        """The content at the end."""
        self.begin(before, output)
        self.run_program([*command, "-o", output])
        new = self.content(output)
        self.assertGreater(len(new), len(self.content(before)) if before else self.TASKS)
        return new


class MergeAndImport(MergingTest):
    def test_kill_at_random_moments(self):
        moments = random.Random(SEED)
        scenarios = []
        for what, before, command, output in self.scenarios():
            scenarios.append((what, before, command, output, self.uninterrupted(before, command, output)))
        kills, launches, longest_s = 0, 0, 0
        met = collections.Counter()
        while kills < KILLS:
            launches += 1
            self.assertLess(launches, 20 * KILLS)
            what, before, command, output, new = scenarios[launches % len(scenarios)]
            with self.subTest(what, kill=kills):
                self.begin(before, output)
                start = time.monotonic()
                process = subprocess.Popen([*command, "-o", output], stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
                # The first of each shows how long it takes.
                if launches > len(scenarios):
                    time.sleep(moments.uniform(0, longest_s))
                    process.kill()
                if process.wait() != -signal.SIGKILL:
                    self.assertEqual(process.returncode, 0)
                    longest_s = max(longest_s, time.monotonic() - start)
                    continue
                kills += 1
                left = "a temporary file" if self.leftovers(output) else "nothing"
                met[f"the {self.old_or_new(before, output, new)} corpus and {left} beside it"] += 1
                self.finish(command, output, new)
        print(f"merge and import: {kills} kills in {launches} launches, within {longest_s:.2f} s each, left " +
              "; ".join(f"{n} times {what}" for what, n in sorted(met.items())))


class AtEveryCall(MergingTest):
    """A kill before, or in the middle of, each call that changes a file, instead of at random moments."""

    TASKS = 3
    FAULTS = ":fail=0.5"

    def for_each_kill(self, begin, command, check):
        """Kills at the first call, at a later one, and so on until the program gets through; the last."""
        for call in range(1, 400, EVERY):
            begin()
            done = self.run_program(command, expect=(0, 5, -signal.SIGKILL),
                                    environment=preload(kill=call, folder=self.folder))
            if done.returncode >= 0:
                self.assertGreater(call, 10, "the program was hardly killed: is the library preloaded?")
                return call - EVERY
            with self.subTest(call=call):
                check()
        self.fail("400 calls, and not done")

    def test_merge_and_import(self):
        for what, before, command, output in self.scenarios()[:3]:  # the others write in the same way
            new = self.uninterrupted(before, command, output)

            def check():
                self.old_or_new(before, output, new)
                self.finish(command, output, new)

            calls = self.for_each_kill(lambda: self.begin(before, output), [*command, "-o", output], check)
            print(f"{what}: killed at every {EVERY} of {calls} calls")

    def test_collect(self):
        replay = ("--replay", "v100" + self.FAULTS)
        whole = self.rows(self.folder / "v100" / "corpus.h5")
        half = self.folder / "half"
        self.collect(*replay, "--budget", "0.0000005", expect=75, run_directory=half)
        for resumed in (False, True):
            before = self.rows(half) if resumed else []

            def begin():
                shutil.rmtree(self.run_directory, ignore_errors=True)
                if resumed:
                    shutil.copytree(half, self.run_directory)

            def check():
                committed = self.rows(self.run_directory) if self.run_directory.exists() else []
                self.assert_holds(committed, before, "journals")
                corpus = self.run_directory / "corpus.h5"
                if corpus.exists():
                    self.assert_holds(self.rows(corpus), before, "corpus.h5")
                self.collect(*replay, "--resume", expect=5)
                self.assert_valid(corpus)
                rows = self.rows(corpus)
                self.assert_holds(rows, committed, "corpus.h5 at the end")
                self.assertEqual(measured(rows), measured(whole))

            calls = self.for_each_kill(begin, self.command(*replay, "--resume"), check)
            print(f"collect{', resumed' if resumed else ''}: killed at every {EVERY} of {calls} calls")


if __name__ == "__main__":
    unittest.main()
