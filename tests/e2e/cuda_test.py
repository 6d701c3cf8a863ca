"""GPUs, as far as they go without one: the program and its CUDA module against the stand-in.

CTest sets FORECOST_STANDIN_DIR, the folder of the stand-in's libraries, besides what harness.py needs.
"""

import json
import os
import pathlib
import subprocess
import tomllib
import unittest

from harness import MPIEXEC, PROGRAM
from standin import StandInTest, gpu

ROOT = pathlib.Path(__file__).parents[2]

SWEEP = """
[sweep]
name = "gpu"
seed = 3
[measure]
min_samples = 5
max_samples = 10
budget_s = 0.05
warmup_budget_s = 0.02
check = true
[[dense]]
samples = 5
batch = {min = 1, max = 32}
in_features = {min = 1, max = 200}
out_features = {min = 1, max = 200}
passes = ["forward", "backward_data", "backward_weights", "update"]
dtypes = ["f32", "f16"]
optimizers = ["adam"]
[[conv2d]]
samples = 3
batch = {min = 1, max = 4}
side = {min = 4, max = 16}
in_channels = {min = 1, max = 16}
out_channels = {min = 1, max = 16}
kernel = [1, 3]
stride = [1, 2]
padding = ["same"]
passes = ["forward", "backward_data", "backward_weights"]
policies = ["heuristic", "find", "fixed"]
"""


class GpuTest(StandInTest):
    def setUp(self):
        super().setUp()
        self.sweep.write_text(SWEEP)

    def collect(self, environment, *options, ranks=1, expect=0):
        launcher = [] if ranks == 1 else [MPIEXEC, "--oversubscribe", "-n", str(ranks)]
        done = self.run_program(
            launcher + [PROGRAM, "collect", self.sweep, "-o", self.run_directory, "--backend", "cuda", *options],
            None, environment, timeout=300)
        if done.returncode not in ((expect,) if isinstance(expect, int) else expect):
            why = self.corpus("info", self.run_directory, expect=None).stdout
            self.fail(f"exit code {done.returncode}\n{done.stdout}{done.stderr}{why}")
        return done

    def exported(self):
        done = self.corpus("export", self.run_directory, "--format", "jsonl", "-o", "-")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def statuses(self):
        return {row["status"] for row in self.exported()}


class Check(GpuTest):
    def test_the_check_of_a_machine(self):
        """Every operator and pass in four dtypes and two layouts beside nested loops, the clock, the probe, a sweep."""
        report = self.folder / "gpu-check.json"
        # The sweep compares results of up to 1e8 FLOPs: they are to be computed.
        limits = {"compute_limit_flops": 1.1e8, "compute_limit_bytes": 2**28}
        environment = {**self.standin(**limits), "BUILD": str(pathlib.Path(PROGRAM).parents[1])}
        self.run_program([ROOT / "scripts/gpu-check.sh", report, "--skip-rates"], 0, environment, timeout=390)
        found = json.loads(report.read_text())
        self.assertEqual(found["failures"], [])
        self.assertEqual(set(found["results"]), {"nchw", "nhwc"})
        for layout, counts in found["results"].items():
            self.assertEqual({name.split()[1] for name in counts}, {"f32", "tf32", "f16", "bf16"})
            for name, count in counts.items():
                self.assertEqual(count["wrong"], 0, (layout, name))
                self.assertTrue(count["right"] > 0 or "tf32" in name, (layout, name))
        self.assertAlmostEqual(found["spin"]["median_s"], 5e-3, delta=1e-4)
        self.assertGreater(found["sweep"]["predictions"][0]["total_s"], 0)
        self.assert_kept_the_protocol()


class Sweeps(GpuTest):
    def test_layers_beyond_what_the_stand_in_computes(self):
        """They take their time and leave zeros: rows of shipped sweeps are as good as small ones."""
        head = SWEEP[:SWEEP.index("[[dense]]")].replace("check = true\n", "")
        self.sweep.write_text(head + """
[[dense]]
samples = 4
batch = [32, 1600]
in_features = 500
out_features = 12000
passes = ["forward", "backward_weights"]
[[softmax]]
samples = 1
batch = 250
rows = 900
features = 300
passes = ["forward", "backward"]
[[layer_norm]]
samples = 1
batch = 50
rows = 170
features = 300
""")
        self.collect(self.standin())
        rows = self.exported()
        self.assertEqual({row["status"] for row in rows}, {"ok"}, [row["reason"] for row in rows])

    def test_gangs_of_gpus(self):
        head = SWEEP[:SWEEP.index("[[dense]]")].replace("check = true\n", "")
        self.sweep.write_text(head + """
[[allreduce]]
samples = 24
batch = 1
elements = {min = 100, max = 1000000, scale = "log"}
ranks = [2, 4]
dtypes = ["f32", "f16", "bf16"]
cache = ["cold", "hot"]
[[allreduce]]
samples = 1
batch = 1
elements = 1000
ranks = 4
nodes = 2
""")
        done = self.collect(self.standin([gpu(i) for i in range(4)]), ranks=4)
        self.assert_complete("stand-in-gpu")
        rows = self.exported()
        across = [row for row in rows if row["nodes"] == 2]
        self.assertEqual([row["status"] for row in across], ["unsupported"])
        self.assertIn("each of 2 nodes", across[0]["reason"])
        here = [row for row in rows if row["nodes"] == 1]
        self.assertEqual({row["status"] for row in here}, {"ok"}, done.stderr)
        self.assertEqual({(row["ranks"], row["implementation"]) for row in here},
                         {(2, "nccl:allreduce:ranks_2"), (4, "nccl:allreduce:ranks_4")})
        self.assertEqual({row["protocol"] for row in here}, {"device_events"})
        self.assert_kept_the_protocol()

    def test_gangs_across_nodes(self):
        """Two ranks on this host, two on one of another name, with a slower link between them."""
        other_host = ["unshare", "--uts", "sh", "-c", 'hostname node-b && exec "$0" "$@"']
        if subprocess.run([*other_host, "true"], capture_output=True).returncode != 0:
            self.skipTest("no host names of our own here")
        head = SWEEP[:SWEEP.index("[[dense]]")].replace("check = true\n", "")
        self.sweep.write_text(head + "".join(f"""
[[allreduce]]
samples = 2
batch = 1
elements = [1000, 1000000]
ranks = 2
nodes = {nodes}
""" for nodes in (1, 2)))
        links = {"link_bandwidth": 4e11, "link_latency": 5e-6, "node_link_bandwidth": 2e10, "node_link_latency": 2e-5}
        devices = [gpu(i, model=links) for i in range(4)]
        command = [MPIEXEC, "--oversubscribe"]
        for node, prefix in (("a", []), ("b", other_host)):
            environment = self.standin(devices, node=node)
            file = self.folder / f"standin-{node}.json"
            pathlib.Path(environment["FORECOST_STANDIN"]).rename(file)
            command += [":"] if node == "b" else []
            command += ["-n", "2", "-x", f"FORECOST_STANDIN={file}", *prefix, PROGRAM, "collect", self.sweep, "-o",
                        self.run_directory, "--backend", "cuda"]
        self.run_program(command, 0, {"LD_LIBRARY_PATH": environment["LD_LIBRARY_PATH"]}, timeout=120)
        rows = self.exported()
        self.assertEqual({row["status"] for row in rows}, {"ok"}, [row["reason"] for row in rows])
        median = {(row["nodes"], row["elements"]): row["median_s"] for row in rows}
        for elements in (1000, 1000000):
            self.assertGreater(median[2, elements], 2 * median[1, elements])
        self.assert_kept_the_protocol()

    def test_results_that_add_up_in_no_fixed_order(self):
        """cuDNN's own gradient of a maximum: its last bits are others in every run."""
        head = SWEEP[:SWEEP.index("[[dense]]")]
        self.sweep.write_text(head + """
[[pool2d]]
samples = 12
batch = {min = 1, max = 4}
side = {min = 5, max = 16}
channels = {min = 1, max = 16}
kernel = [3]
stride = [2]
mode = ["max"]
passes = ["backward"]
dtypes = ["f32", "f16", "bf16"]
""")
        self.collect(self.standin())
        rows = self.exported()
        self.assertIn("cudnn:max_pooling_bwd:nchw", {row["implementation"] for row in rows})
        self.assertEqual({row["status"] for row in rows}, {"ok"}, [row["reason"] for row in rows])

    def test_from_a_sweep_to_a_prediction(self):
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                self.run_directory = self.folder / f"run-{ranks}"
                self.collect(self.standin([gpu(i) for i in range(ranks)]), ranks=ranks)
                self.assert_complete("stand-in-gpu")
                rows = self.exported()
                self.assertEqual({row["status"] for row in rows}, {"ok"})
                self.assertEqual({row["protocol"] for row in rows}, {"device_events"})
                self.assertEqual(len({row["device_id"] for row in rows}), ranks)
                self.assert_kept_the_protocol()
                model = self.folder / f"model-{ranks}.h5"
                self.run_program([PROGRAM, "train", self.run_directory / "corpus.h5", "-o", model, "--epochs", "5"])
                done = self.run_program([PROGRAM, "predict", model, "--network", "vgg-small", "--batch", "4",
                                         "--device", "stand-in-gpu", "--json"])
                (prediction,) = json.loads(done.stdout)["predictions"]
                self.assertGreater(prediction["total_s"], 0)

    def test_layouts_stand_side_by_side(self):
        environment = self.standin()
        self.collect(environment, "--layout", "nchw")
        first = self.run_directory
        # A layout is no part of a task's key: the other one's rows would count as done.
        for other in (first, self.folder / "merged"):
            if other != first:  # without journals
                other.mkdir()
                for name in ("corpus.h5", "corpus.h5.sha256", "sweep.toml"):
                    (other / name).write_bytes((first / name).read_bytes())
            self.run_directory = other
            done = self.collect(environment, "--layout", "nhwc", "--resume", expect=4)
            (line,) = self.errors(done)
            self.assertIn("was measured with --layout nchw, not nhwc", line)
            self.collect(environment, "--resume")
        self.run_directory = self.folder / "other"
        self.collect(environment, "--layout", "nhwc")
        together = self.folder / "both.h5"
        self.corpus("merge", first, self.run_directory, "-o", together)
        self.assertEqual(len(self.rows(together)), 2 * len(self.rows(first)))

    def test_options_of_another_kind_of_device(self):
        """Whatever is here: these need no driver to be refused."""
        for options, words in ((("--backend", "cuda", "--layout", "nchv"), "expected nchw or nhwc"),
                               (("--layout", "NHWC"), "expected nchw or nhwc"),
                               (("--backend", "cpu", "--layout", "nhwc"), "not by the cpu backend"),
                               (("--replay", "h100", "--layout", "nchw"), "not by the replay backend"),
                               (("--backend", "cuda", "--cores", "2"), "--cores 2: of a CPU device")):
            done = self.run_program([PROGRAM, "collect", self.sweep, "-o", self.folder / "x", *options], 2)
            self.assertIn(words, self.errors(done)[0])


class Devices(GpuTest):
    """What is not there, and which device is whose."""

    def test_no_driver_no_device_and_no_module(self):
        for settings, words in (({"driver_version": 0}, "no NVIDIA driver: the module needs one for CUDA"),
                                ({"driver_version": 11000}, "the NVIDIA driver is for CUDA 11.0, too old: the module"),
                                ({"devices": []}, "no ")):
            environment = self.standin(**settings)
            if "devices" in settings:
                environment["CUDA_VISIBLE_DEVICES"] = ""
            done = self.collect(environment, expect=3)
            (line,) = self.errors(done)
            self.assertIn(words, line)
        done = self.run_program([PROGRAM, "collect", self.sweep, "--backend", "cuda", "--plan-only"], 3,
                                self.standin(driver_version=0))
        self.assertIn("to plan for a device that is not here: --replay NAME --plan-only", done.stderr)
        # Silence under auto: the CPU, or nothing, is what there is.
        done = self.run_program([PROGRAM, "devices", "--json"], None, self.standin(driver_version=0))
        if done.returncode == 0:
            self.assertEqual(json.loads(done.stdout)["devices"][0]["kind"], "cpu")
        self.assertNotIn("CUDA", done.stderr)

    def test_a_device_that_no_module_runs(self):
        """Told with its name, and under auto in a line where the rank takes the CPU instead."""
        environment = self.standin([gpu(0), gpu(1, name="Tesla V100-SXM2-16GB", capability=[7, 0])])
        done = self.collect(environment, ranks=2, expect=3)
        (line,) = self.errors(done)
        self.assertIn(f"Tesla V100-SXM2-16GB ({gpu(1)['uuid']}) has compute capability 7.0", line)
        environment = {**environment, "OMP_NUM_THREADS": "1"}
        done = self.run_program([MPIEXEC, "--oversubscribe", "-n", "2", PROGRAM, "devices", "--json"], 0, environment)
        told = json.loads(done.stdout)
        self.assertEqual([device["kind"] for device in told["devices"]], ["gpu", "cpu"])
        (line,) = [line for line in told["warnings"] if "although there is a GPU" in line]
        self.assertRegex(line, r"rank 1 on \S+: the backend is cpu, although there is a GPU: Tesla V100.*7.0")
        for environment in (self.standin([gpu(0, capability=[7, 0])]), self.standin(driver_version=11000)):
            done = self.run_program([PROGRAM, "collect", self.sweep, "--plan-only"], 0, environment)
            (line,) = self.warnings(done)
            self.assertIn("the backend is cpu, although there is a GPU: ", line)
        # Whom nobody shows a GPU, or who hides it, is told nothing.
        done = self.run_program([PROGRAM, "collect", self.sweep, "--plan-only"], 0, self.standin(visible=""))
        self.assertEqual(self.warnings(done), [])

    def test_a_device_that_says_what_cannot_be(self):
        done = self.collect(self.standin([gpu(0, clock_hz=1e12)]), expect=3)
        (line,) = self.errors(done)
        self.assertIn(f"({gpu(0)['uuid']}) says of itself clock_hz = 1e+12", line)

    def test_ranks_and_devices(self):
        two = [gpu(0), gpu(1)]
        done = self.run_program([MPIEXEC, "--oversubscribe", "-n", "3", PROGRAM, "devices", "--backend", "cuda", "--json"],
                                0, self.standin(two))
        self.assertEqual([d["uuid"] for d in json.loads(done.stdout)["devices"]], [gpu(0)["uuid"], gpu(1)["uuid"]])
        done = self.run_program([PROGRAM, "devices", "--backend", "cuda", "--json"], 0, self.standin(two, visible="1"))
        self.assertEqual([d["uuid"] for d in json.loads(done.stdout)["devices"]], [gpu(1)["uuid"]])

    def test_devices_of_a_host_with_a_manager(self):
        done = self.collect(self.standin([gpu(0), gpu(1)]), "--dedicated-manager", ranks=3)
        self.assertEqual(len({row["device_id"] for row in self.exported()}), 2)
        self.assertEqual(self.warnings(done), [])

    def test_ranks_beyond_the_devices_are_told(self):
        done = self.collect(self.standin([gpu(0), gpu(1)]), ranks=4)
        (line,) = self.warnings(done)
        self.assertIn("1 rank is without a device and without work", line)

    def test_two_ranks_on_one_device_are_refused(self):
        for environment in (self.standin([gpu(0), gpu(1)], visible="1"), self.standin([gpu(0), gpu(0)])):
            done = self.collect(environment, ranks=2, expect=3)
            (line,) = self.errors(done)
            self.assertIn("ranks 0 and 1", line)
            self.assertRegex(line, "GPU-57a4d14e")
            self.assertIn(os.uname().nodename, line)

    def test_a_slice_is_a_device_of_its_own(self):
        parent = gpu(0, name="NVIDIA A100-SXM4-40GB")
        slices = [{"name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "parent": parent["uuid"],
                   "uuid": f"MIG-57a4d14e-0000-4000-8000-00000000000{i}", "pci": parent["pci"]} for i in (1, 2)]
        done = self.run_program([PROGRAM, "devices", "--backend", "cuda", "--json"], 0,
                                self.standin([parent, *slices], visible=slices[1]["uuid"]))
        (device,) = json.loads(done.stdout)["devices"]
        self.assertEqual(device["uuid"], slices[1]["uuid"])
        self.assertEqual(device["class"], "a100-40gb-mig-1g-5gb")


class Faults(GpuTest):
    """What goes wrong, and how the sweep goes on."""

    def test_out_of_memory(self):
        self.collect(self.standin(faults={"after": "cudnnConvolution", "allocation_above": 2000}), expect=0)
        self.assertEqual(self.statuses(), {"ok", "out_of_memory"})
        self.assert_kept_the_protocol()

    def test_unsupported(self):
        self.collect(self.standin(faults={"unsupported": ["convolution"]}))
        by_operator = {(row["operator"], row["status"]) for row in self.exported()}
        self.assertEqual(by_operator, {("dense", "ok"), ("conv2d", "unsupported")})

    def test_an_error_that_sticks(self):
        faults = {"sticky_launch": 20, "after": "cudnnConvolutionForward", "once": str(self.folder / "once")}
        self.collect(self.standin(faults=faults), expect=(0, 5))
        self.assertIn("failed", self.statuses())
        self.assert_complete("stand-in-gpu")

    def test_a_device_that_dies_again_and_again(self):
        """The processes end with it, and what they did together is told."""
        faults = {"sticky_launch": 20, "after": "cudnnConvolution"}
        done = self.collect(self.standin(faults=faults), expect=3)
        (line,) = self.errors(done)
        self.assertIn(f"{gpu(0)['uuid']} (stand-in-gpu) answered nothing any more 5 times in a row", line)
        self.assertIn("--resume", line)
        self.assertEqual(done.stderr.count("starts anew"), done.stderr.count("probing 1 device") - 1)
        rows = len(self.exported())
        self.assertRegex(done.stdout, rf"corpus.h5: {rows} of \d+ tasks")
        self.assertIn(f"\n{rows} tasks on 1 device in", done.stdout)
        # And what is left can be had of another one.
        self.collect(self.standin(), "--resume", expect=(0, 5))
        self.assert_complete("stand-in-gpu")

    def test_an_error_before_anything_is_measured(self):
        """In the spin before the probe, and in the probe itself: no bug of ours, and no row."""
        for launches in (1, 5, 40):
            with self.subTest(launches=launches):
                self.run_directory = self.folder / f"early-{launches}"
                done = self.collect(self.standin(faults={"sticky_launch": launches}), expect=3)
                (line,) = self.errors(done)
                self.assertIn(gpu(0)["uuid"], line)
                self.assertIn("does not get through", line)

    def test_throttling(self):
        self.sweep.write_text(SWEEP.replace("samples = 5", "samples = 1").replace("samples = 3", "samples = 1"))
        done = self.collect(self.standin(faults={"throttled_samples": 10**9}))
        self.assertEqual(self.statuses(), {"throttled"})
        self.assertRegex(done.stderr, r"warning: a device's clock is held back: .* become status throttled")
        self.assertEqual(done.stderr.count("become status throttled"), 1)
        for row in self.exported():
            self.assertIn("thermal", row["reason"])
            self.assertGreater(row["median_s"], 0)
        self.assert_complete("stand-in-gpu")

    def test_a_foreign_process(self):
        self.collect(self.standin([gpu(0, foreign_processes=[4242])]))
        rows = self.exported()
        self.assertEqual({row["status"] for row in rows}, {"shared"})
        self.assertIn("4242", rows[0]["reason"])

    def test_a_result_that_is_not_finite(self):
        done = self.collect(self.standin(faults={"nan": ["cudnnConvolutionForward"]}), expect=(0, 5))
        failed = {(row["operator"], row["pass"]) for row in self.exported() if row["status"] == "failed"}
        self.assertEqual(failed, {("conv2d", "forward")}, done.stderr)


class Probe(GpuTest):
    def probe(self, environment, *options, expect=0):
        file = self.folder / "probed.toml"
        file.unlink(missing_ok=True)
        done = self.run_program([PROGRAM, "probe", "--backend", "cuda", "--seconds", "0.1", "-o", file, *options],
                                expect, environment, timeout=200)
        text = file.read_text() if file.exists() else ""
        return done, text, tomllib.loads(text)

    def test_a_probe_of_a_throttled_device(self):
        done, text, free = self.probe(self.standin())
        self.assertNotIn("held back", text + done.stderr)
        # All of it: half of what the device reaches, and marked so.
        done, text, slow = self.probe(self.standin(faults={"throttled_samples": 10**9}))
        self.assertLess(slow["probed_f32_flops"], 0.6 * free["probed_f32_flops"])
        for told in (text.split("\nname")[0], done.stderr):
            self.assertRegex(told, r"clock of GPU-57a4d14e\S+ was held back \(software thermal slowdown\) in 3 of 3")
        self.assertEqual(done.stderr.count("held back"), 1)
        self.assertRegex(done.stdout, r"probed_f32_flops.*throttled")
        # The first round alone: the others count.
        done, text, some = self.probe(self.standin(faults={"throttled_samples": 20}))
        self.assertGreater(some["probed_f32_flops"], 0.9 * free["probed_f32_flops"])
        self.assertIn("in 1 of 3 rounds: the others count", done.stderr)
        self.assertNotIn("throttled", done.stdout)
        # A sweep's own probe tells it too, once.
        self.sweep.write_text(SWEEP.replace("samples = 5", "samples = 1").replace("samples = 3", "samples = 1"))
        done = self.collect(self.standin(faults={"throttled_samples": 10**9}))
        self.assertEqual(done.stderr.count("was held back"), 1)

    def test_a_probe_of_a_card_of_the_catalogue(self):
        h100 = {"name": "NVIDIA H100 80GB HBM3"}
        done, text, device = self.probe(self.standin([gpu(0, **h100)]))
        self.assertEqual((device["class"], device["peak_f32_flops"], device["uuid"]),
                         ("h100", 66.9e12, gpu(0)["uuid"]))
        self.assertRegex(done.stdout, r"probed_f32_flops +66.9 TFLOP/s")
        self.assertNotIn("warning", done.stderr)
        # In the catalogue's place it stands for the same cards as before, with or without --device.
        for options in ((), ("--device", "h100")):
            self.probe(self.standin([gpu(0, **h100)]), *options)
            configs = self.folder / "configs"
            (configs / "devices").mkdir(parents=True, exist_ok=True)
            (self.folder / "probed.toml").rename(configs / "devices/h100.toml")
            done = self.run_program([PROGRAM, "devices", "--backend", "cuda", "--json"], 0,
                                    {**self.standin([gpu(0, **h100)]), "FORECOST_CONFIGS": str(configs)})
            (device,) = json.loads(done.stdout)["devices"]
            self.assertEqual((device["class"], device["catalogue"]), ("h100", "probed"))
        # A card below its power cap is another class: the nominal figures alone are its own.
        done, text, device = self.probe(self.standin([gpu(0, power_limit_w=450, **h100)]))
        self.assertEqual((device["class"], device["power_cap_w"], device["peak_f32_flops"]), ("h100-450w", 450, 66.9e12))
        self.assertNotIn("cuda_names", device)

    def test_a_probe_that_cannot_be_of_that_device(self):
        h100 = gpu(0, name="NVIDIA H100 80GB HBM3")
        done, text, device = self.probe(self.standin([h100]), "--device", "h200")
        self.assertEqual(device["class"], "h200")
        (line,) = [line for line in done.stderr.splitlines() if "warning" in line]
        self.assertIn("--device h200: the device here is NVIDIA H100 80GB HBM3, of class h100", line)
        done, text, device = self.probe(self.standin([{**h100, "model": {"f32_flops": 9e13, "f16_flops": 2e15}}]))
        (line,) = [line for line in done.stderr.splitlines() if "warning" in line]
        self.assertRegex(line, r"probed_f32_flops is 1[23]\d % of the nominal figure, probed_f16_flops is (19|20)\d % .*: is this a h100?")

    def test_a_probe_beside_other_processes(self):
        for processes, words in (([4242], "process 4242 is"), ([17, 4242], "processes 17, 4242 are")):
            done, text, device = self.probe(self.standin([gpu(0, foreign_processes=processes)]))
            self.assertIn(f"{words} on the device too while GPU-", text.split("\nname")[0])
            self.assertEqual(done.stderr.count("on the device too"), 1)


if __name__ == "__main__":
    unittest.main()
