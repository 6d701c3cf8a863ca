"""Bytes changed and files cut at random: told with exit code 4, or without effect; never another number.

FORECOST_PLACES is in how many places of the corpus, and of the journals, a byte is changed (12;
scripts/damage-campaign.sh asks for more), FORECOST_DAMAGE_SEED says which.
"""

import collections
import random
import shutil
import unittest

from harness import ProgramTest, measured, setting

PLACES = setting("FORECOST_PLACES", 12)
SEED = setting("FORECOST_DAMAGE_SEED", 1)
FAULTS = ":fail=0.3"


class Damage(ProgramTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.sweep = self.write_sweep("sweep.toml", 8)
        for device in ("v100", "p100"):  # one journal each
            self.collect("--replay", device + FAULTS, "--resume", expect=5)
        self.corpus_file = self.run_directory / "corpus.h5"
        self.digest = self.run_directory / "corpus.h5.sha256"
        # Records that nothing else holds, or the corpus would give them back.
        self.only_journals = self.folder / "journals"
        shutil.copytree(self.run_directory / "runs", self.only_journals / "runs")
        shutil.copy(self.sweep, self.only_journals)
        self.journals = sorted(self.only_journals.glob("runs/*/journal-*"))
        self.assertEqual(len(self.journals), 2)
        self.output = self.folder / "output.h5"
        self.met = collections.Counter()

    def tearDown(self):
        print(self.id().split(".")[-1] + ": " +
              ", ".join(f"{n} {what}" for what, n in sorted(self.met.items())))

    def damaged(self, content):
        """One byte is another: anywhere, or near the beginning or end; a bit of it, or all."""
        near = min(100, len(content))
        at = self.random.choice((self.random.randrange(len(content)), self.random.randrange(near),
                                 len(content) - 1 - self.random.randrange(near)))
        old = content[at]
        new = self.random.choice((old ^ 1 << self.random.randrange(8), 0, 255, self.random.randrange(256)))
        if new == old:
            new ^= 0xFF
        return f"byte {at} of {len(content)}: {old:#04x} is {new:#04x}", \
            content[:at] + bytes([new]) + content[at + 1:]

    def cut(self, content):
        length = self.random.randrange(len(content))
        return f"{length} of {len(content)} bytes", content[:length]

    def each(self, files, spoil, places, check):
        """Spoils one file after the other, in so many places in all, and checks each time."""
        for place in range(places):
            file = files[place % len(files)]
            whole = file.read_bytes()
            what, spoilt = spoil(whole)
            file.write_bytes(spoilt)
            with self.subTest(file=file.name, place=place, what=what):
                check(file)
            file.write_bytes(whole)

    def outcome(self, verb, *arguments):
        """The standard output, or None where the program says what is wrong, and ends with 4."""
        done = self.corpus(verb, *arguments, expect=(0, 4))
        if done.returncode == 0:
            return done.stdout
        if verb == "validate":
            self.assertGreater(len(done.stdout.splitlines()), 1)  # and how many problems
        else:
            self.assertEqual(len(self.errors(done)), 1, done.stderr)
        return None

    def merge(self, *arguments):
        """The content of what was merged, or None if it was refused, which leaves no file."""
        for file in self.folder.glob(self.output.name + "*"):
            file.unlink()
        if self.outcome("merge", *arguments, "-o", self.output) is None:
            self.assertFalse(self.output.exists())
            return None
        return self.content(self.output)

    def corpus_readers(self):
        return {"info": self.outcome("info", self.corpus_file),
                "validate": self.outcome("validate", self.run_directory),
                "merge": self.merge(self.corpus_file),
                "export": self.outcome("export", self.corpus_file, "--samples", "-o", "-")}

    def journal_readers(self):
        return {"validate": self.outcome("validate", self.only_journals),
                "merge": self.merge(self.only_journals)}

    def refused(self, wanted, got):
        """Whether a reader refused; the others must have read what is undamaged."""
        for reader, result in got.items():
            if result is not None:
                self.assertEqual(result, wanted[reader], reader)
        refused = None in got.values()
        self.met["refused" if refused else "harmless"] += 1
        return refused

    def test_corpus(self):
        wanted = self.corpus_readers()
        self.assertNotIn(None, wanted.values())

        def check(file):
            refused = self.refused(wanted, self.corpus_readers())
            self.assertTrue(refused or file == self.digest, "a changed byte was not seen")

        self.each((self.corpus_file, self.digest), self.damaged, PLACES, check)

    def test_cut_corpus(self):
        def check(_):
            self.assertEqual(set(self.corpus_readers().values()), {None})
            self.met["refused"] += 1

        self.each((self.corpus_file,), self.cut, PLACES // 4, check)

    def test_a_damaged_corpus_is_made_again(self):
        wanted = self.content(self.corpus_file)

        def check(_):
            self.corpus("merge", self.run_directory, "-o", self.corpus_file)
            self.assertEqual(self.content(self.corpus_file), wanted)
            self.assert_valid(self.corpus_file)
            self.met["made again, or harmless"] += 1
            for aside in self.run_directory.glob("corpus.h5.damaged*"):
                aside.unlink()

        self.each((self.corpus_file, self.digest), self.damaged, PLACES // 4, check)

    def resume(self, expect):
        """Goes on from a copy of the journals; returns the run directory."""
        copy = self.folder / "resumed"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.only_journals, copy)
        for device in ("v100", "p100"):
            done = self.collect("--replay", device + FAULTS, "--resume", expect=expect, run_directory=copy)
            self.assertLessEqual(len(self.errors(done)), 1, done.stderr)
        return copy

    def test_journals(self):
        wanted = self.journal_readers()
        self.assertNotIn(None, wanted.values())

        def check(_):
            if self.refused(wanted, self.journal_readers()):
                self.resume(expect=4)
            # All other records come through. Those that both journals hold are not lost with one.
            saved = self.merge(self.only_journals, "--salvage")
            self.assert_holds(wanted["merge"], saved, "salvage made something up")
            lost = len(wanted["merge"]) - len(saved)
            self.assertIn(lost, (0, 1))
            self.met[f"without {lost} records after --salvage"] += 1

        self.each(self.journals, self.damaged, PLACES, check)

    def test_cut_journals(self):
        """As a kill leaves them: the records before the cut count, and --resume measures the rest."""
        rows = self.rows(self.only_journals)

        def check(_):
            left = self.rows(self.only_journals)
            self.assert_holds(rows, left, "a cut journal holds something new")
            merged = self.merge(self.only_journals)
            self.assert_holds(merged, left, "merged")
            resumed = self.resume(expect=(0, 5)) / "corpus.h5"
            self.assert_holds(self.rows(resumed), left, "resumed")
            self.assertEqual(measured(self.rows(resumed)), measured(rows))
            self.met["read up to the cut"] += 1

        self.each(self.journals, self.cut, PLACES // 4, check)


if __name__ == "__main__":
    unittest.main()
