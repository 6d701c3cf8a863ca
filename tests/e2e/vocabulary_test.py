"""Every operator of the vocabulary on its way from a sweep to a prediction. Usage: vocabulary_test.py FORECOST"""
import json
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy

FORECOST = sys.argv[1]
HEAD = '[sweep]\nname = "vocabulary"\nseed = 3\n[measure]\nmin_samples = 3\nmax_samples = 10\n'
# Block, passes that are measured, columns besides batch.
OPERATORS = {
    "matmul": ('m = {min = 1, max = 256}\nn = {min = 1, max = 256}\nk = {min = 1, max = 256}\n',
               ["forward", "backward"], ["m", "n", "k"]),
    "layer_norm": ('rows = [1, 128]\nfeatures = {min = 64, max = 1024}\naffine = [true, false]\noptimizers = "adam"\n',
                   ["forward", "backward", "update", "training_step"], ["rows", "features", "affine"]),
    "softmax": ('rows = [1, 128]\nfeatures = {min = 2, max = 1024}\n',
                ["forward", "backward"], ["rows", "features"]),
    "elementwise": ('features = {min = 1, max = 65536, scale = "log"}\noperand = ["tensor", "scalar"]\n'
                    'operation = ["add", "subtract", "multiply", "divide", "power"]\n',
                    ["forward", "backward"], ["features", "operation", "operand"]),
    "activation": ('features = {min = 1, max = 65536, scale = "log"}\n'
                   'function = ["relu", "tanh", "sigmoid", "gelu", "silu"]\n',
                   ["forward", "backward"], ["features", "function"]),
    "dense": ('in_features = {min = 8, max = 512}\nout_features = {min = 8, max = 512}\noptimizers = "adam"\n',
              ["forward", "backward_data", "backward_weights", "update"], ["in_features", "out_features"]),
    "conv_transpose2d": ('in_channels = [16, 32, 64]\nout_channels = [16, 32]\nside = {min = 4, max = 32}\n'
                         'kernel = [2, 4]\nstride = 2\npadding = ["same", "valid"]\noptimizers = "adam"\n',
                         ["forward", "backward_data", "backward_weights", "update", "training_step"],
                         ["in_channels", "out_channels", "in_h", "in_w", "kernel_h", "pad_top"]),
    "pool2d": ('channels = {min = 8, max = 256}\nside = {min = 4, max = 64}\nkernel = [2, 3]\nstride = [1, 2]\n'
               'padding = ["valid", "same"]\nmode = ["max", "average"]\n',
               ["forward", "backward"], ["channels", "in_h", "in_w", "kernel_h", "stride_h", "pad_bottom", "mode"]),
    "batch_norm": ('channels = {min = 8, max = 256}\nside = {min = 1, max = 64}\ntraining = [true, false]\n'
                   'optimizers = "adam"\n',
                   ["forward", "backward", "update", "training_step"], ["channels", "height", "width", "training"]),
    "attention": ('heads = [4, 8, 12]\nquery_length = {min = 16, max = 128}\nkey_length = {min = 128, max = 256}\n'
                  'head_features = [32, 64]\ncausal = [true, false]\n',
                  ["forward", "backward"], ["heads", "query_length", "key_length", "head_features", "causal"]),
    "rnn": ('steps = {min = 1, max = 64}\nin_features = {min = 16, max = 256}\nhidden_features = {min = 16, max = 256}\n'
            'layers = [1, 2]\nbidirectional = [true, false]\ncell = ["vanilla", "lstm", "gru"]\noptimizers = "adam"\n',
            ["forward", "backward", "update", "training_step"],
            ["steps", "in_features", "hidden_features", "layers", "bidirectional", "cell"]),
    "embedding": ('length = {min = 1, max = 128}\nentries = {min = 100, max = 30000, scale = "log"}\n'
                  'features = {min = 16, max = 512}\noptimizers = "adam"\n',
                  ["forward", "backward", "update", "training_step"], ["length", "entries", "features"]),
    "dropout": ('features = {min = 1, max = 65536, scale = "log"}\n', ["forward", "backward"], ["features"]),
    "reduce": ('rows = [1, 16, 128]\nfeatures = {min = 2, max = 1024}\noperation = ["sum", "mean", "max"]\n'
               'axis = ["features", "rows"]\n',
               ["forward", "backward"], ["rows", "features", "operation", "axis"]),
    "transfer": ('features = {min = 1, max = 65536, scale = "log"}\npinned = [true, false]\n'
                 'direction = ["host_to_device", "device_to_host"]\n',
                 ["forward"], ["features", "direction", "pinned"]),
}
# Networks, the operators of their layers, and their parameters.
NETWORKS = {
    "block": ("""
input = [512]
[[layer]]
name = "project"
op = "dense"
out_features = 512
[[layer]]
op = "matmul"
m = 8
k = 64
n = 8
with = "project"
[[layer]]
op = "softmax"
rows = 8
[[layer]]
name = "scale"
op = "elementwise"
operation = "multiply"
operand = "scalar"
[[layer]]
op = "layer_norm"
rows = 1
""", ["dense", "matmul", "softmax", "elementwise", "layer_norm"], 512 * 512 + 512 + 2 * 64),
    "picture": ("""
input = [16, 8, 8]
[[layer]]
op = "conv_transpose2d"
out_channels = 32
kernel = 4
stride = 2
padding = "same"
[[layer]]
op = "batch_norm"
[[layer]]
op = "activation"
kind = "relu"
[[layer]]
op = "pool2d"
mode = "max"
kernel = 2
[[layer]]
op = "dropout"
[[layer]]
op = "transfer"
direction = "device_to_host"
""", ["conv_transpose2d", "batch_norm", "activation", "pool2d", "dropout", "transfer"], 16 * 32 * 16 + 32 + 64),
    "text": ("""
input = [64]
[[layer]]
op = "embedding"
entries = 1000
features = 96
[[layer]]
name = "qkv"
op = "dense"
out_features = 288
[[layer]]
op = "attention"
heads = 4
causal = true
[[layer]]
op = "rnn"
cell = "lstm"
hidden_features = 32
[[layer]]
op = "reduce"
operation = "mean"
axis = "rows"
""", ["embedding", "dense", "attention", "rnn", "reduce"],
             1000 * 96 + 96 * 288 + 288 + 4 * (96 * 32 + 32 * 32 + 2 * 32)),
}
LEARN = {"dense", "layer_norm", "conv_transpose2d", "batch_norm", "embedding", "rnn"}
SAMPLES = 60


def run(*arguments, expect=0):
    done = subprocess.run([FORECOST, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == expect, (arguments, done.returncode, done.stdout, done.stderr)
    return done


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    sweep, corpus, model = (folder / name for name in ("s.toml", "run/corpus.h5", "m.h5"))
    sweep.write_text(HEAD + "".join(
        f"[[{op}]]\nsamples = {SAMPLES}\nbatch = {{min = 1, max = 64}}\npasses = {json.dumps(passes)}\n{block}"
        for op, (block, passes, _) in OPERATORS.items()))

    # Collected: each layer in each pass, its parameters in columns that readers understand.
    run("collect", sweep, "-o", folder / "run", "--backend", "replay", "--replay", "v100")
    run("corpus", "validate", folder / "run")
    with h5py.File(corpus) as f:
        for op, (_, passes, columns) in OPERATORS.items():
            group = f[op]

            def named(column):
                names = group[column].attrs["flag_meanings"].decode().split()
                return [names[code] for code in group[column][:]]

            rows = list(zip(*(group[c][:].tolist() for c in ["batch", *columns]), named("pass")))
            assert len(set(rows)) == len(rows)
            per_pass = {p: sum(r[-1] == p for r in rows) for p in named("pass")}
            assert set(per_pass) == set(passes), per_pass
            assert per_pass["forward"] == SAMPLES and set(named("status")) == {"ok"}
            assert (group["median_s"][:] > 0).all() and (group["sample_count"][:] >= 3).all()
            if op == "layer_norm":
                updates = numpy.array(named("pass")) == "update"
                assert set(group["affine"][:][updates]) == {1}, "a layer without parameters was updated"
                assert set(group["affine"][:][~updates]) == {0, 1}
            if op == "elementwise":
                assert set(named("operation")) == {"add", "subtract", "multiply", "divide", "power"}
                assert set(named("operand")) == {"tensor", "scalar"}
            if op == "activation":
                assert set(named("function")) == {"relu", "tanh", "sigmoid", "gelu", "silu"}

    # Trained and evaluated: every operator and pass has its row, none is left out.
    run("train", corpus, "-o", model, "--epochs", 15)
    scores = json.loads(run("evaluate", model, corpus, "--json").stdout)
    assert scores["not_covered"] == 0
    seen = {(row["op"], row["pass"]) for row in scores["rows"]}
    assert seen >= {(op, each) for op, (_, passes, _) in OPERATORS.items() for each in passes}, seen

    # Predicted, inference and training: all layers count, those with a gradient in backward too.
    for name, (layers, ops, parameters) in NETWORKS.items():
        network = folder / f"{name}.toml"
        network.write_text(f'[network]\nname = "{name}"\n{layers.strip()}\n')
        for mode in ("inference", "training"):
            training = mode == "training"
            answer = json.loads(run("predict", model, "--network", network, "--device", "v100", "--batch", 4,
                                    "--mode", mode, *(["--optimizer", "adam"] if training else []),
                                    "--json").stdout)["predictions"][0]
            assert answer["uncosted"] == {}, answer
            times = {layer["op"]: layer for layer in answer["layers"]}
            assert list(times) == [op for op in ops if training or op != "dropout"], times
            assert all(layer["forward_s"] > 0 for layer in times.values())
            assert {op for op, layer in times.items() if (layer["backward_s"] or 0) > 0} == (
                set(ops) - {"transfer"} if training else set()), times
            assert {op for op, layer in times.items() if (layer["update_s"] or 0) > 0} == (
                set(ops) & LEARN if training else set()), times
        listed = json.loads(run("networks", network, "--json").stdout)["networks"][0]
        assert [node["op"] for node in listed["nodes"]] == ops
        assert listed["parameters"] == parameters

    # A pass that an operator has not is refused with those it has.
    sweep.write_text(HEAD + "[[softmax]]\nsamples = 1\nbatch = 1\nfeatures = 8\npasses = 'update'\n")
    done = run("collect", sweep, "-o", folder / "other", "--backend", "replay", expect=2)
    assert "softmax: unknown pass 'update'; known: forward, backward" in done.stderr, done.stderr
    print("ok")
