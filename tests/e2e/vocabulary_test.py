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
}
NETWORK = """
[network]
name = "block"
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
"""
SAMPLES = 60


def run(*arguments, expect=0):
    done = subprocess.run([FORECOST, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == expect, (arguments, done.returncode, done.stdout, done.stderr)
    return done


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    sweep, corpus, model, network = (folder / name for name in ("s.toml", "run/corpus.h5", "m.h5", "n.toml"))
    sweep.write_text(HEAD + "".join(
        f"[[{op}]]\nsamples = {SAMPLES}\nbatch = {{min = 1, max = 64}}\npasses = {json.dumps(passes)}\n{block}"
        for op, (block, passes, _) in OPERATORS.items()))
    network.write_text(NETWORK)

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
    for mode in ("inference", "training"):
        answer = json.loads(run("predict", model, "--network", network, "--device", "v100", "--batch", 4,
                                "--mode", mode, *(["--optimizer", "adam"] if mode == "training" else []),
                                "--json").stdout)["predictions"][0]
        layers = {layer["op"]: layer for layer in answer["layers"]}
        assert set(layers) == set(OPERATORS) - {"activation"} and answer["uncosted"] == {}, answer
        assert all(layer["forward_s"] > 0 for layer in layers.values())
        assert all(((layer["backward_s"] or 0) > 0) == (mode == "training") for layer in layers.values()), layers
        assert {op for op, layer in layers.items() if (layer["update_s"] or 0) > 0} == (
            {"dense", "layer_norm"} if mode == "training" else set())
    listed = json.loads(run("networks", network, "--json").stdout)["networks"][0]
    assert [node["op"] for node in listed["nodes"]] == ["dense", "matmul", "softmax", "elementwise", "layer_norm"]
    assert listed["parameters"] == 512 * 512 + 512 + 2 * 64

    # A pass that an operator has not is refused with those it has.
    sweep.write_text(HEAD + "[[softmax]]\nsamples = 1\nbatch = 1\nfeatures = 8\npasses = 'update'\n")
    done = run("collect", sweep, "-o", folder / "other", "--backend", "replay", expect=2)
    assert "softmax: unknown pass 'update'; known: forward, backward" in done.stderr, done.stderr
    print("ok")
