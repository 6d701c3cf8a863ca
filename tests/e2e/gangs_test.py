"""Collectives: several ranks measure one task together."""

import json
import signal
import subprocess
import time
import unittest

from harness import ProgramTest

SWEEP = """
[sweep]
name = "gangs"
seed = 5
[measure]
min_samples = 5
max_samples = 20
budget_s = 0.1
[[dense]]
samples = 20
batch = {min = 1, max = 64}
in_features = 100
out_features = 100
[[allreduce]]
samples = 30
batch = 1
elements = {min = 100, max = 1000000, scale = "log"}
ranks = [2, 3, 8]
cache = ["cold", "hot"]
"""


class Gangs(ProgramTest):
    def setUp(self):
        super().setUp()
        self.sweep.write_text(SWEEP)

    def collectives(self):
        done = self.corpus("export", self.run_directory, "--operator", "allreduce", "--format", "jsonl", "-o", "-")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_as_many_as_there_are(self):
        done = self.collect("--replay", "h100", ranks=3)
        self.assertIn("50 of 50 tasks", done.stdout)
        self.assertIn("\n50 tasks on 3 devices in ", done.stdout)  # the pace is of collectives too
        self.assert_complete("h100")
        rows = self.collectives()
        self.assertEqual({row["ranks"] for row in rows}, {2, 3, 8})
        for row in rows:
            if row["ranks"] == 8:
                self.assertEqual(row["status"], "unsupported")
                self.assertIn("it takes 8 ranks", row["reason"])
                self.assertIn("here are 3", row["reason"])
            else:
                self.assertEqual(row["status"], "ok", row)
                self.assertGreater(row["median_s"], 0)
        groups = {row["ranks"]: {r["group_id"] for r in rows if r["ranks"] == row["ranks"]} for row in rows}
        self.assertEqual([len(groups[ranks]) for ranks in (2, 3)], [1, 1])
        self.assertNotEqual(groups[2], groups[3])
        told = self.corpus("info", self.run_directory).stdout
        for ranks in (2, 3):
            line = next(line for line in told.splitlines() if line.startswith(f"group {groups[ranks].copy().pop()}"))
            members = line.split("members=")[1].split(";")[0].split()
            self.assertEqual(len(set(members)), ranks, line)

    def test_one_rank_has_nobody(self):
        self.collect("--replay", "h100")
        self.assert_complete("h100")
        self.assertEqual({row["status"] for row in self.collectives()}, {"unsupported"})

    def test_each_class_has_gangs_of_its_own(self):
        self.collect("--replay", "h100,a100-40gb", ranks=4)
        self.assert_complete("h100", "a100-40gb")
        rows = self.collectives()
        self.assertEqual({row["device_class"] for row in rows if row["status"] == "ok"}, {"h100", "a100-40gb"})
        self.assertEqual({row["ranks"] for row in rows if row["status"] == "ok"}, {2})

    def test_a_member_that_cannot_leaves_nobody_waiting(self):
        self.collect("--replay", "h100,h100:fail=1", ranks=2, expect=(0, 5))
        for row in self.collectives():
            self.assertNotEqual(row["status"], "ok", row)

    def test_a_collective_that_kills_is_given_up_by_all_members(self):
        self.sweep.write_text("""
[sweep]
name = "deadly"
[[allreduce]]
samples = 1
batch = 1
elements = 1000
ranks = 2
""")
        # The first member dies of it. Then it gives it up without asking the second, who must not wait.
        deadly = ("--replay", "h100:kill=1,h100", "--resume")
        for _ in range(2):
            done = self.collect(*deadly, ranks=2, expect=None)
            self.assertNotIn(done.returncode, (0, 5, 75))
        self.collect(*deadly, ranks=2, expect=5, environment={"MPIEXEC_TIMEOUT": "30"})
        row, = self.collectives()
        self.assertEqual(row["status"], "crashed", row)

    def test_a_stop_between_collectives_is_resumed(self):
        command = self.command("--replay", "h100:real_delay_s=0.05", ranks=2)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:  # all dense tasks are done, some collectives are not
            rows = [json.loads(line) for line in self.rows(self.run_directory)] if \
                list(self.run_directory.glob("runs/*/journal-*")) else []
            if any("allreduce" in json.dumps(row) for row in rows):
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGUSR1)
        _, told = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, told)
        self.collect("--replay", "h100", "--resume", ranks=2)
        self.assert_complete("h100")


if __name__ == "__main__":
    unittest.main()
