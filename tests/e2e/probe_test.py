"""forecost devices: what it finds on this machine."""

import json
import os

from harness import PROGRAM, ProgramTest


class Devices(ProgramTest):
    def test_warnings_are_lines_and_a_list(self):
        done = self.run_program([PROGRAM, "devices", "--cores", 1, "--json"])
        told = json.loads(done.stdout)
        self.assertEqual(done.stderr, "")
        self.assertEqual(told["devices"][0]["cores"], 1)
        self.assertIsNone(told["devices"][0]["probed_bandwidth_curve"])
        self.assertIsNone(told["devices"][0]["catalogue"])
        for line in told["warnings"]:
            self.assertNotIn("\n", line)
        unbound = [line for line in told["warnings"] if "may run on" in line]
        self.assertEqual(len(unbound), int(len(os.sched_getaffinity(0)) > 1))

        done = self.run_program([PROGRAM, "devices", "--cores", 1])
        self.assertIn(told["devices"][0]["class"], done.stdout)
        self.assertNotIn("warning", done.stdout)
        for line in unbound:
            self.assertIn(f"forecost: warning: {line}\n", done.stderr)

    def test_replay_has_no_host_to_warn_of(self):
        told = json.loads(self.run_program([PROGRAM, "devices", "--replay", "v100", "--json"]).stdout)
        self.assertEqual(told["warnings"], [])
        self.assertEqual(told["devices"][0]["catalogue"], "nominal")
