"""How end-to-end tests meet the stand-in for the CUDA libraries.

CTest sets FORECOST_STANDIN_DIR, the folder of its libraries, besides what harness.py needs.
"""

import json
import os
import pathlib
import tempfile

from harness import ProgramTest

STANDIN = os.environ["FORECOST_STANDIN_DIR"]


def gpu(number, **more):
    return {"uuid": f"GPU-57a4d14e-0000-4000-8000-{number:012x}", "pci": f"0000:{number + 16:02x}:00.0", **more}


class StandInTest(ProgramTest):
    def standin(self, devices=None, visible=None, **settings):
        """The environment in which the program meets the stand-in, with these devices and faults."""
        # One of its own for each call: several may be in use at once.
        file = pathlib.Path(tempfile.mkstemp(".json", "standin-", self.folder)[1])
        file.write_text(json.dumps({"devices": devices or [gpu(0)], "report": str(self.folder / "report"), **settings}))
        environment = {"LD_LIBRARY_PATH": STANDIN, "FORECOST_STANDIN": str(file)}
        if visible is not None:
            environment["CUDA_VISIBLE_DEVICES"] = visible
        return environment

    def assert_kept_the_protocol(self):
        reports = list(self.folder.glob("report-*.txt"))
        self.assertTrue(reports, "the stand-in wrote no report")
        for report in reports:
            text = report.read_text()
            self.assertIn("end: 0 violations", text, report)
