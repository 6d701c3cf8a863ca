"""Imports every public table that lies beside the repository and compares all rows with it.

    import_tables_test.py FORECOST DATA_DIRECTORY

The tables are read here by Python's csv module and translated by code that shares nothing with the
mappings.
"""
import csv
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import h5py
import numpy

FORECOST, DATA = sys.argv[1], pathlib.Path(sys.argv[2])
JUSTUS_DEVICES = {"GTX1080Ti": "gtx-1080-ti", "K40": "k40", "K80": "k80", "M60": "m60", "P100": "p100",
                  "V100": "v100"}
NEUSIGHT_MAPPINGS = {"bmm": "matmul", "linear": "linear", "conv": "conv", "ln": "layer-norm",
                     "softmax": "softmax", "relu": "activation", "gelu": "activation",
                     "tanh": "activation"}  # and all others elementwise
NEUSIGHT_CLASSES = {"NVIDIA A100-PCIE-40GB": "a100-pcie-40gb", "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
                    "Tesla P100-PCIE-16GB": "p100", "Tesla P4": "p4", "Tesla T4": "t4",
                    "Tesla V100-PCIE-32GB": "v100-pcie-32gb"}
OPERATIONS = {"add": "add", "mul": "multiply", "div": "divide", "pow": "power"}
OPTIMIZERS = ["none", "sgd", "adadelta", "adagrad", "momentum", "adam", "rmsprop"]
ACTIVATIONS = ["none", "relu", "tanh", "sigmoid"]


def check(ok, what):
    if not ok:
        sys.exit(f"import_tables_test: {what}")


def imported(table, mapping, device, corpus):
    command = [FORECOST, "corpus", "import", str(table), "--mapping", mapping, "-o", str(corpus)]
    done = subprocess.run(command + (["--device", device] if device else []), capture_output=True,
                          text=True, check=False)
    check(done.returncode == 0, f"{table}: {done.stderr}")
    return done.stdout


def text_column(group, name):
    return numpy.array([value.decode() for value in group[name]])


def named_column(group, name):
    attributes = group[name].attrs
    names = dict(zip(attributes["flag_values"].tolist(), attributes["flag_meanings"].decode().split()))
    return numpy.array([names[code] for code in group[name][:].tolist()])


def same_padding(side, kernel, stride):
    """TensorFlow's: the output has ceil(side / stride) elements, the odd zero goes after."""
    total = numpy.maximum((-(-side // stride) - 1) * stride + kernel - side, 0)
    return total // 2, total - total // 2


def expect_columns(group, order, columns, place):
    for name, expected in columns.items():
        expected = numpy.broadcast_to(expected, order.shape)
        named = expected.dtype.kind == "U"
        got = (named_column(group, name) if named and "flag_values" in group[name].attrs
               else text_column(group, name) if named else group[name][:])[order]
        check((got == expected).all(), f"{place}: column {name}: row {numpy.argmax(got != expected)} "
              f"has {got[got != expected][:1]}, expected {expected[got != expected][:1]}")


def expect_times(group, order, name, milliseconds, place, digits=None):
    """But for the last bit, and exactly where the table rounds to so many digits."""
    back = group[name][:][order] * 1e3
    original = numpy.array([float(text) for text in milliseconds])
    check((numpy.abs(back - original) <= numpy.spacing(original)).all(),
          f"{place}: {name} x 1e3 is not the table's")
    for value, number in zip(back, original) if digits else ():
        check(float(f"{value:.{digits}g}") == number, f"{place}: {name}: {value} instead of {number}")


def expect_justus(group, order, table, kind, place):
    integer = {name: numpy.array(values, dtype=numpy.int64) for name, values in table.items()
               if not name.startswith("timeUsed")}
    optimizer = integer["optimizer"]
    expected = {
        "batch": integer["batchsize"],
        "activation": numpy.array(ACTIVATIONS)[integer["activation_fct"]],
        "optimizer": numpy.array(OPTIMIZERS)[optimizer],
        "pass": numpy.where(optimizer == 0, "forward", "training_step"),
        "dtype": "f32", "cache_state": "hot", "algorithm_policy": "unknown",
        "protocol": "imported_host_overhead", "sample_count": 5, "runs_per_sample": 50, "status": "ok",
        "replicate": 0,
    }
    if kind == "conv":
        side, kernel, stride = integer["matsize"], integer["kernelsize"], integer["strides"]
        before, after = same_padding(side, kernel, stride) * integer["padding"]
        expected |= {"in_h": side, "in_w": side, "kernel_h": kernel, "kernel_w": kernel,
                     "stride_h": stride, "stride_w": stride, "pad_top": before, "pad_left": before,
                     "pad_bottom": after, "pad_right": after, "bias": integer["use_bias"],
                     "in_channels": integer["channels_in"], "out_channels": integer["channels_out"]}
    else:
        expected |= {"in_features": integer["dim_input"], "out_features": integer["dim_output"],
                     "bias": 1}
    expect_columns(group, order, expected, place)
    for name in ("median", "min", "max"):
        expect_times(group, order, f"{name}_s", table[f"timeUsed_{name}"], place, digits=9)
    stdev = numpy.array(table["timeUsed_std"], dtype=float) / 1e3 * 1.25 ** 0.5
    check(numpy.allclose(group["stdev_s"][:][order], stdev, rtol=1e-14, atol=0), f"{place}: stdev_s")


def expect_neusight(group, order, table, kind, place):
    integer = lambda name: numpy.array(table[name], dtype=numpy.int64)
    expected = {
        "pass": "forward", "dtype": "f32", "optimizer": "none", "cache_state": "hot",
        "algorithm_policy": "find" if kind == "conv" else "heuristic", "protocol": "device_events",
        "sample_count": 3 if kind in ("bmm", "linear", "conv", "ln") else 5, "status": "ok",
        "implementation": numpy.array(table["kernel_short"]),
        "device_class": numpy.array([NEUSIGHT_CLASSES[name] for name in table["Device"]]),
    }
    if kind == "bmm":
        expected |= {"batch": integer("B"), "m": integer("M"), "k": integer("N"), "n": integer("K")}
    elif kind == "linear":
        expected |= {"batch": integer("B") * integer("M"), "in_features": integer("N"),
                     "out_features": integer("K"), "bias": 1, "activation": "none"}
    elif kind == "conv":
        expected |= {"batch": integer("B"), "in_channels": integer("Input_Channel"),
                     "out_channels": integer("Output_Channel"), "in_h": integer("Input_Size"),
                     "in_w": integer("Input_Size"), "kernel_h": integer("Kernel_Szie"),
                     "kernel_w": integer("Kernel_Szie"), "stride_h": integer("Stride"),
                     "stride_w": integer("Stride"), "bias": 0}
        expected |= {f"pad_{side}": integer("Padding") for side in ("top", "bottom", "left", "right")}
    else:
        expected |= {"batch": integer("B"), "features": integer("H")}
    if kind in ("ln",):
        expected["affine"] = 1
    if kind in ("relu", "gelu", "tanh"):
        expected["function"] = kind
    if kind.removesuffix("u") in OPERATIONS:
        expected["operation"] = OPERATIONS[kind.removesuffix("u")]
        expected["operand"] = "scalar" if kind.endswith("u") else "tensor"
    expect_columns(group, order, expected, place)
    for name in ("median_s", "mean_s"):
        expect_times(group, order, name, table["Latency"], place)
    check(numpy.isnan(group["max_s"][:]).all(), f"{place}: a maximum out of nowhere")
    # Repeats of a key are numbered in the order of the file.
    seen = {}
    names = [n for n in table if n in ("Device", "B", "H", "M", "N", "K") or n.startswith(("Input_", "Output_"))]
    numbers = []
    for key in zip(*(table[name] for name in names)):
        numbers.append(seen.get(key, 0))
        seen[key] = numbers[-1] + 1
    check((group["replicate"][:][order] == numbers).all(), f"{place}: replicates")


def expect_no_change(table, mapping, device, corpus):
    def state():
        return hashlib.sha256(corpus.read_bytes()).hexdigest(), os.stat(corpus).st_mtime_ns
    before = state()
    imported(table, mapping, device, corpus)
    check(state() == before, f"{table}: a second import changed the corpus")


def expect_table(path, corpus):
    is_justus = path.parent.name == "justus"
    if is_justus:
        kind, gpu = re.fullmatch(r"justus_(\w+?)_(\w+)\.csv", path.name).groups()
        mapping, device = f"justus2018-{kind}", JUSTUS_DEVICES[gpu]
    else:
        kind = re.fullmatch(r"nvidia_train_(\w+)\.csv", path.name).group(1)
        mapping, device = "neusight-" + NEUSIGHT_MAPPINGS.get(kind, "elementwise"), None
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    table = {name: [row[name] for row in rows] for name in rows[0]}
    out = imported(path, mapping, device, corpus)
    check(out.startswith(f"{path}: {len(rows):,} rows: {len(rows):,} imported, 0 refused, 0 filtered out\n"),
          f"{path}: {out}")
    with h5py.File(corpus) as file:
        groups = [name for name in file if name not in ("devices", "environments", "groups", "runs", "sweeps")]
        check(len(groups) == 1, f"{path}: {groups}")
        group = file[groups[0]]
        lines = group["source_line"][:]
        order = numpy.argsort(lines)
        check((lines[order] == numpy.arange(len(rows)) + 2).all(), f"{path}: the lines of the rows")
        (expect_justus if is_justus else expect_neusight)(group, order, table, kind, path.name)
    if kind in ("dense", "ln"):
        expect_no_change(path, mapping, device, corpus)
    return len(rows)


if __name__ == "__main__":
    paths = sorted(DATA.glob("*/*.csv"))
    check(len(paths) >= 28, f"only {len(paths)} tables in {DATA}")
    total = 0
    for path in paths:
        with tempfile.TemporaryDirectory() as directory:
            total += expect_table(path, pathlib.Path(directory) / "corpus.h5")
    print(f"{total:,} rows of {len(paths)} tables are as they were")
