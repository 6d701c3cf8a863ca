"""Full and read-only disks: exit code 3 with one line, and no committed row is lost.

Runs where it may mount, in a mount namespace of its own: unshare --map-root-user --mount.
FORECOST_DISK_STEP is by how many bytes the free space grows from one try to the next (131072).
"""

import os
import shutil
import subprocess
import unittest

from harness import PROGRAM, ProgramTest, measured, setting

STEP = setting("FORECOST_DISK_STEP", 131072)


class DiskTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        self.mount("-t", "tmpfs", "-o", "size=4m", "none")
        self.addCleanup(subprocess.run, ["umount", self.disk], check=True)
        self.sweep = self.write_sweep("sweep.toml", 40)
        self.run_directory = self.disk / "run"
        self.inputs = []
        for device in ("v100", "p100"):
            self.inputs.append(self.folder / device)
            self.collect("--replay", device, run_directory=self.inputs[-1])

    def mount(self, *options):
        subprocess.run(["mount", *options, self.disk], check=True)

    def free(self):
        space = os.statvfs(self.disk)
        return space.f_bavail * space.f_frsize

    def empty(self):
        for entry in self.disk.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def leave(self, free):
        """Fills the disk but for some bytes."""
        with open(self.disk / "ballast", "wb") as ballast:
            ballast.write(bytes(max(0, self.free() - free)))

    def make_room(self):
        (self.disk / "ballast").unlink()

    def put(self, corpus, to):
        shutil.copy(corpus, to)
        shutil.copy(f"{corpus}.sha256", f"{to}.sha256")

    def assert_refused(self, done):
        """With one line that names the disk; launchers may add theirs."""
        self.assertEqual(len(self.errors(done)), 1, done.stderr)
        self.assertIn(str(self.disk), self.errors(done)[0])
        self.assertRegex(self.errors(done)[0], "No space left on device|Read-only file system")


class Full(DiskTest):
    def free_spaces(self):
        """0, one page, and on by steps."""
        yield from (0, 4096)
        yield from range(STEP, 1 << 20, STEP)

    def test_merge_and_import(self):
        output, old = self.disk / "all.h5", self.inputs[0] / "corpus.h5"
        merge = (PROGRAM, "corpus", "merge", *self.inputs, "-o", output)
        for what, before, command in (
                ("merge into a new corpus", None, merge),
                ("merge into a corpus", old, merge),
                ("import into a corpus", old, (*self.write_table(40), "-o", output))):
            self.empty()
            if before:
                self.put(before, output)
            self.run_program(command)
            whole, full = self.rows(output), 0
            for free in self.free_spaces():
                self.empty()
                if before:
                    self.put(before, output)
                self.leave(free)
                done = self.run_program(command, expect=(0, 3))
                if done.returncode == 3:
                    full += 1
                    self.assert_refused(done)
                    self.assertEqual(list(self.disk.glob("*.tmp-*")), [])
                    if before:  # or the disk was full for the digest's last word alone
                        self.assertIn(self.rows(output), (self.rows(before), whole))
                    self.make_room()
                    self.run_program(command)
                self.assert_valid(output)
                self.assertEqual(self.rows(output), whole)
                if done.returncode == 0:
                    break
            self.assertEqual(done.returncode, 0)
            self.assertGreater(full, 2)
            print(f"{what}: {full} full disks")

    def test_export(self):
        table = self.disk / "rows.csv"
        command = (PROGRAM, "corpus", "export", self.inputs[0], "-o", table)
        self.run_program(command)
        whole = table.read_bytes()
        self.run_program([*command, "--status", "failed"])  # an earlier, shorter export
        earlier = table.read_bytes()
        for free in (0, 4096):
            self.leave(free)
            self.assert_refused(self.run_program(command, expect=3))
            self.assertEqual(table.read_bytes(), earlier)
            self.assertEqual(list(self.disk.glob("*.tmp-*")), [])
            self.make_room()
        self.run_program(command)
        self.assertEqual(table.read_bytes(), whole)

    def collect_on_full_disks(self, spaces, ranks, resumed):
        whole = measured(self.rows(self.inputs[0]))
        half = self.folder / "half"
        if resumed and not half.exists():
            self.collect("--replay", "v100", "--budget", "0.00001", expect=75, run_directory=half)
        full = 0
        for free in spaces:
            self.empty()
            before = []
            if resumed:
                shutil.copytree(half, self.run_directory)
                before = self.rows(half)
                self.assertLess(0, len(before))
                self.assertLess(len(before), 40)
            self.leave(free)
            done = self.collect("--replay", "v100", "--resume", ranks=ranks, expect=(0, 3))
            committed = before
            if done.returncode == 3:
                full += 1
                self.assert_refused(done)
                if self.run_directory.exists():
                    committed = self.rows(self.run_directory)
                    self.assert_holds(committed, before, "journals")
                    if (self.run_directory / "corpus.h5").exists():
                        self.assert_valid(self.run_directory / "corpus.h5")
                        self.assert_holds(self.rows(self.run_directory / "corpus.h5"), before, "corpus.h5")
                self.make_room()
                self.collect("--replay", "v100", "--resume", ranks=ranks)
            self.assert_complete("v100")
            rows = self.rows(self.run_directory / "corpus.h5")
            self.assert_holds(rows, committed, "corpus.h5 at the end")
            self.assertEqual(measured(rows), whole)
            if done.returncode == 0:
                break
        print(f"collect{', resumed' if resumed else ''}, {ranks} ranks: {full} full disks")
        return full

    def test_collect(self):
        self.assertGreater(self.collect_on_full_disks(self.free_spaces(), ranks=1, resumed=False), 2)

    def test_collect_resumed(self):
        self.assertGreater(self.collect_on_full_disks(self.free_spaces(), ranks=1, resumed=True), 2)

    def test_collect_with_many_ranks(self):
        self.assertEqual(self.collect_on_full_disks((0, 12288, 28672), ranks=2, resumed=False), 3)


class ReadOnly(DiskTest):
    def files(self):
        return {file: file.read_bytes() for file in self.disk.rglob("*") if file.is_file()}

    def test_all_verbs(self):
        self.collect("--replay", "v100", "--budget", "0.00001", expect=75)
        corpus, all_of_them = self.run_directory / "corpus.h5", self.disk / "all.h5"
        self.put(self.inputs[0] / "corpus.h5", all_of_them)
        merge_old = (PROGRAM, "corpus", "merge", *self.inputs, "-o", all_of_them)
        merge_new = (PROGRAM, "corpus", "merge", *self.inputs, "-o", self.disk / "new.h5")
        before, committed = self.files(), self.rows(self.run_directory)

        self.mount("-o", "remount,ro")
        for ranks in (1, 2):
            self.assert_refused(self.collect("--replay", "v100", "--resume", ranks=ranks, expect=3))
            self.assert_refused(self.collect("--replay", "v100", ranks=ranks, expect=3,
                                             run_directory=self.disk / "another"))
        importing = (*self.write_table(40), "-o", all_of_them)
        export = (PROGRAM, "corpus", "export", corpus, "-o", self.disk / "rows.csv")
        for command in (merge_old, merge_new, importing, export):
            self.assert_refused(self.run_program(command, expect=3))
        self.assertEqual(self.files(), before)
        # What only reads goes on.
        self.corpus("info", corpus)
        self.corpus("validate", self.run_directory)
        self.corpus("export", corpus, "-o", self.folder / "rows.csv")
        self.corpus("merge", all_of_them, self.inputs[1], "-o", self.folder / "elsewhere.h5")

        self.mount("-o", "remount,rw")
        self.collect("--replay", "v100", "--resume")
        self.assert_complete("v100")
        self.assert_holds(self.rows(corpus), committed, "corpus.h5")
        for merge, output in ((merge_old, all_of_them), (merge_new, self.disk / "new.h5")):
            self.run_program(merge)
            self.assertEqual(self.rows(output), sorted(sum(map(self.rows, self.inputs), [])))
        self.run_program(importing)
        self.run_program(export)


if __name__ == "__main__":
    unittest.main()
