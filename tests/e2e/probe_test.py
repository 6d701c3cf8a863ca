"""forecost probe and forecost devices: what they find on this machine, and what is done with it."""

import json
import os
import signal
import subprocess
import tomllib

from harness import MAPPING, PROGRAM, MPIEXEC, ProgramTest

# Three rounds, unless the machine is very busy; its figures are rough, but all there.
BRIEF = ("--seconds", "0.1")


class Probe(ProgramTest):
    def probe(self, *options, ranks=1, **how):
        launcher = [] if ranks == 1 else [MPIEXEC, "--oversubscribe", "-n", ranks]
        return self.run_program([*launcher, PROGRAM, "probe", *BRIEF, *options], timeout=200, **how)

    def own_device(self, *options):
        done = self.run_program([PROGRAM, "devices", "--json", *options])
        return json.loads(done.stdout)["devices"][0]

    def test_file_is_a_device_for_predict_and_import(self):
        file = self.folder / "device.toml"
        done = self.probe("--cores", 1, "-o", file)
        device = tomllib.loads(file.read_text())
        here = self.own_device("--cores", 1)
        for key in ("class", "name", "uuid", "host", "cores"):
            self.assertEqual(device[key], here[key])
        for key in ("probed_f32_flops", "probed_bandwidth_bytes_per_s", "probed_cache_bandwidth_bytes_per_s",
                    "probed_cache_bytes", "probed_launch_latency_s", "probed_host_link_bytes_per_s"):
            self.assertGreater(device[key], 0)
            self.assertIn(key, done.stdout)
        self.assertNotIn("probed_allreduce_bytes_per_s", device)
        curve = device["probed_bandwidth_curve"]
        self.assertEqual(curve, sorted(curve))
        self.assertGreater(len(curve), 10)
        self.assertEqual(max(rate for _, rate in curve), device["probed_cache_bandwidth_bytes_per_s"])
        # Its comments say how it came about.
        head = file.read_text().split("\nname")[0]
        self.assertRegex(head, r"[123] rounds? in")
        self.assertIn("1 device at once", head)
        self.assertIn("probed_f32_flops", head)

        # As a device of predict, with a model of another machine's rows ...
        self.collect()
        model = self.folder / "model.h5"
        self.run_program([PROGRAM, "train", self.run_directory, "-o", model, "--epochs", 2])
        network = self.folder / "network.toml"
        network.write_text('[network]\nname = "n"\ninput = [1, 8, 8]\n'
                           '[[layer]]\nop = "flatten"\n[[layer]]\nop = "dense"\nout_features = 10\n')
        predicted = json.loads(self.run_program(
            [PROGRAM, "predict", model, "--network", network, "--batch", 8, "--device", file, "--json"]).stdout)
        self.assertEqual(predicted["predictions"][0]["device"], device["class"])
        self.assertGreater(predicted["predictions"][0]["total_s"], 0)

        # ... and as that of an imported table, whose corpus then holds the curve.
        table, mapping, corpus = (self.folder / name for name in ("t.csv", "map.toml", "c.h5"))
        table.write_text("batch,in,t\n1,2,0.1\n")
        mapping.write_text(MAPPING)
        self.corpus("import", table, "--mapping", mapping, "--device", file, "-o", corpus)
        self.assert_valid(corpus)
        held = [json.loads(line) for line in self.content(corpus) if "probed_bandwidth_curve" in line]
        self.assertEqual([d["probed_bandwidth_curve"] for d in held], [curve])

        # An earlier probe is replaced; so is what stands behind a class's name.
        self.probe("--cores", 1, "-o", file)
        configs = self.folder / "configs"
        (configs / "devices").mkdir(parents=True)
        file.rename(configs / "devices" / f"{device['class']}.toml")
        known = {"FORECOST_CONFIGS": str(configs)}
        done = self.run_program([PROGRAM, "devices", "--cores", 1, "--json"], environment=known)
        self.assertEqual(json.loads(done.stdout)["devices"][0]["catalogue"], "probed")

    def test_named_device_gives_class_and_nominal_figures(self):
        nominal = self.folder / "nominal.toml"
        text = 'name = "N"\nvendor = "V"\nkind = "{}"\nclass = "named"\ncores = {}\npeak_f32_flops = 1e15\n' \
            "memory_bytes = 1e12\nprobed_f32_flops = 1e16\nprobed_allreduce_bytes_per_s = 1e9\n"
        nominal.write_text(text.format("cpu", 1))
        done = self.probe("--cores", 1, "--device", nominal, "-o", "-")
        device = tomllib.loads(done.stdout)
        self.assertEqual((device["name"], device["class"], device["peak_f32_flops"], device["memory_bytes"]),
                         ("N", "named", 1e15, 1e12))
        self.assertLess(device["probed_f32_flops"], 1e15)  # its own, not the file's
        self.assertEqual(device["probed_allreduce_bytes_per_s"], 1e9)  # which one rank cannot find
        self.assertEqual(device["uuid"], self.own_device("--cores", 1)["uuid"])
        self.assertIn("1.00 PFLOP/s", done.stderr)  # the table shows it beside

        for kind, cores, complaint in (("gpu", 1, "it is a gpu"), ("cpu", 64, "it has 64 cores")):
            nominal.write_text(text.format(kind, cores))
            done = self.probe("--cores", 1, "--device", nominal, "-o", "-", expect=2)
            self.assertIn(complaint, done.stderr)
        self.assertIn("unknown device", self.probe("--device", "no-such", "-o", "-", expect=2).stderr)

    def test_outputs_are_refused_before_the_work(self):
        foreign = self.folder / "device.toml"
        foreign.write_text('# mine\nname = "N"\n')
        for output, complaint in ((foreign, "it exists and is no device file of an earlier probe"),
                                  (self.folder, "directory"), (self.folder / "no" / "x.toml", "no")):
            done = self.probe("-o", output, expect=(2, 3))
            self.assertEqual(len(self.errors(done)), 1)
            self.assertIn(complaint, done.stderr)
            self.assertNotIn("seconds", done.stderr)  # no progress: nothing had begun
        self.assertEqual(foreign.read_text(), '# mine\nname = "N"\n')
        self.assertIn("output", self.probe(expect=2).stderr)
        self.assertIn("at most 50", self.run_program([PROGRAM, "probe", "--seconds", 90, "-o", "-"], expect=2).stderr)
        self.assertIn("nothing to probe", self.probe("--backend", "replay", "-o", "-", expect=2).stderr)

    def test_ranks_find_the_all_reduce_together(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("two ranks need two cores")
        file = self.folder / "device.toml"
        self.probe("--cores", 1, "-o", file, ranks=2)
        device = tomllib.loads(file.read_text())
        self.assertEqual(device["cores"], 1)
        self.assertGreater(device["probed_allreduce_bytes_per_s"], 0)
        # Two ranks hand over what they sum: that is no faster than one copies.
        self.assertLess(device["probed_allreduce_bytes_per_s"], device["probed_cache_bandwidth_bytes_per_s"])
        self.assertIn("2 devices at once", file.read_text())
        # A manager without a device keeps the figure away, not the probe.
        cores = len(os.sched_getaffinity(0))
        self.probe("--cores", 1, "-o", file, ranks=cores + 1)
        self.assertNotIn("probed_allreduce_bytes_per_s", tomllib.loads(file.read_text()))


    def test_a_sweep_begins_with_it_and_stores_it(self):
        ranks = min(2, len(os.sched_getaffinity(0)))
        launcher = [] if ranks == 1 else [MPIEXEC, "--oversubscribe", "-n", ranks]
        done = self.run_program([*launcher, PROGRAM, "collect", self.write_sweep("three.toml", 3), "-o",
                                 self.run_directory, "--backend", "cpu", "--cores", 1], timeout=200)
        self.assertIn("probing 1 device: some 3 s" if ranks == 1 else "probing 2 devices: some 3 s", done.stderr)
        devices = [json.loads(line) for line in self.content(self.run_directory / "corpus.h5") if '"vendor"' in line]
        self.assertEqual(len(devices), ranks)
        for device in devices:
            self.assertGreater(len(device["probed_bandwidth_curve"]), 10)
            self.assertGreater(device["probed_host_link_bytes_per_s"], 0)
            self.assertEqual("probed_allreduce_bytes_per_s" in device, ranks > 1)

    def test_a_signal_during_it_asks_for_no_larger_limit(self):
        command = [PROGRAM, "collect", self.write_sweep("three.toml", 3), "-o", self.run_directory,
                   "--backend", "cpu", "--cores", "1"]
        with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) as process:
            while "probing" not in process.stderr.readline():
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGTERM)
            told = process.stderr.read()
        self.assertEqual(process.returncode, 75, told)
        self.assertIn("nothing was measured; go on with: forecost collect", told)
        limited = self.run_program([*command, "--resume", "--time-limit", "0.5"], expect=75)
        self.assertIn("nothing was measured; go on, with a larger limit, with: forecost collect", limited.stderr)


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
