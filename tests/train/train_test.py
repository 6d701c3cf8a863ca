"""Training from the command line. Usage: train_test.py FORECOST [MPIEXEC]; without it, one rank only."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import h5py
import numpy

FORECOST = sys.argv[1]
MPIEXEC = sys.argv[2] if len(sys.argv) > 2 else None
RANKS = (1, 2, 3, 4) if MPIEXEC else (0,)
SWEEP = """
[sweep]
name = "train-test"
seed = 7
[[dense]]
samples = 120
batch = {min = 1, max = 128, scale = "log"}
in_features = {min = 8, max = 4096, scale = "log"}
out_features = {min = 8, max = 4096, scale = "log"}
passes = ["forward", "backward_data", "backward_weights", "update"]
optimizers = ["adam"]
"""


def run(*arguments, ranks=0, expect=0):
    command = [FORECOST, *map(str, arguments)]
    if ranks:
        command = [MPIEXEC, "-n", str(ranks), "--oversubscribe", *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == expect, (command, done.returncode, done.stdout, done.stderr)
    return done


def content(file):
    """Everything in a model file but the times of day."""
    found = {}
    with h5py.File(file) as f:
        def visit(name, item):
            if isinstance(item, h5py.Dataset):
                found[name] = item[()].tobytes()
            found.update({f"{name}@{key}": numpy.asarray(value).tobytes()
                          for key, value in item.attrs.items() if key not in ("REFERENCE_LIST", "DIMENSION_LIST")})
        f.visititems(visit)
        found.update({f"@{k}": numpy.asarray(v).tobytes() for k, v in f.attrs.items() if k != "history"})
    return {k: v for k, v in found.items() if "history" not in k}


def held_out_median(corpus, model):
    rows = json.loads(run("evaluate", model, corpus, "--json").stdout)["rows"]
    return next(r["median_ape"] for r in rows if r["op"] == "dense" and r["pass"] == "all" and r["split"] == "held_out")


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    (folder / "sweep.toml").write_text(SWEEP)
    run("collect", folder / "sweep.toml", "-o", folder / "run", "--backend", "replay", "--replay", "v100:noise=0.05")
    corpus = folder / "run/corpus.h5"

    # The same bits on any number of ranks.
    for ranks in RANKS:
        run("train", corpus, "-o", folder / f"d{ranks}.h5", "--deterministic", "--epochs", 4, ranks=ranks)
    one = content(folder / f"d{RANKS[0]}.h5")
    assert sum("member" in name for name in one) >= 2, sorted(one)
    for ranks in RANKS[1:]:
        other = content(folder / f"d{ranks}.h5")
        assert other.keys() == one.keys()
        different = [name for name in one if one[name] != other[name]]
        assert not different, (ranks, different)

    # However the ranks are grouped, too: each network trains as it would alone.
    if MPIEXEC:
        for ranks, each in ((2, 2), (4, 2), (4, 4)):
            run("train", corpus, "-o", folder / "g.h5", "--deterministic", "--epochs", 4, "--ranks-per-model", each,
                ranks=ranks)
            assert content(folder / "g.h5") == one, (ranks, each)
        run("train", corpus, "-o", folder / "f1.h5", "--epochs", 4)
        done = run("train", corpus, "-o", folder / "f3.h5", "--epochs", 4, ranks=3)
        assert "3 groups of 1 rank train 12 networks" in done.stderr, done.stderr
        assert content(folder / "f3.h5") == content(folder / "f1.h5")

    # A stop writes a checkpoint, resume ends in the same bits.
    run("train", corpus, "-o", folder / "whole.h5", "--deterministic", "--epochs", 60)
    arguments = [FORECOST, "train", str(corpus), "-o", str(folder / "cut.h5"), "--deterministic", "--epochs", "60",
                 "--checkpoint", str(folder / "ckpt")]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    time.sleep(0.5)
    process.send_signal(signal.SIGUSR1)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 75, (process.returncode, errors)
    assert "--resume" in errors and not (folder / "cut.h5").exists()
    done = subprocess.run([*arguments, "--resume"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert content(folder / "cut.h5") == content(folder / "whole.h5")

    # A signal to one rank stops all groups; another number of ranks goes on.
    if MPIEXEC:
        def start(*arguments, ranks):
            command = [MPIEXEC, "-n", str(ranks), "--oversubscribe", FORECOST, *map(str, arguments)]
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def signal_one(process, number):
            """To one rank, when the first checkpoint lies there and most networks are yet to be trained."""
            ranks = []
            for _ in range(3000):
                if not ranks:
                    ranks = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
                if ranks and any((folder / "ckpt2").glob("*.h5")):
                    os.kill(int(ranks[-1]), number)
                    return
                assert process.poll() is None, process.communicate()
                time.sleep(0.01)
            raise AssertionError("no checkpoint")

        training = ["train", corpus, "-o", folder / "cut2.h5", "--deterministic", "--epochs", 60, "--checkpoint",
                    folder / "ckpt2"]
        process = start(*training, ranks=3)
        signal_one(process, signal.SIGUSR1)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 75 and "--resume" in errors, (process.returncode, errors)
        # Groups that were not told would have finished their four networks each.
        epochs = [h5py.File(file).attrs["epoch"] for file in (folder / "ckpt2").glob("*.h5")]
        assert epochs.count(60) < 8, epochs
        run(*training, "--resume", ranks=2)
        assert content(folder / "cut2.h5") == content(folder / "whole.h5")

        # A rank that is killed, or answers no more, ends all within seconds; what was saved is good.
        shared = [15 if word == 60 else word for word in training if word != "--deterministic"] + ["--ranks-per-model", 4]
        for fault, command, expected in ((signal.SIGKILL, training, None), (signal.SIGSTOP, training, 70),
                                         (signal.SIGSTOP, shared, 70)):
            for file in (folder / "ckpt2").glob("*"):
                file.unlink()
            (folder / "cut2.h5").unlink(missing_ok=True)
            process = start(*command, "--collective-timeout", 1.5, ranks=4)
            signal_one(process, fault)
            _, errors = process.communicate(timeout=40)
            assert process.returncode != 0 and expected in (None, process.returncode), (process.returncode, errors)
            assert fault != signal.SIGSTOP or "another rank is presumed dead" in errors, errors
            assert not (folder / "cut2.h5").exists()
            if command == training:
                run(*training, "--resume", ranks=2)
                assert content(folder / "cut2.h5") == content(folder / "whole.h5"), fault

    # The fast mode on 2 ranks that share each batch lands where one rank does, within what another seed changes. The seed
    # of the split stays: the salt follows --seed, so each model is scored on its own held-out layers.
    scores = []
    for seed in (1, 2, 3) if MPIEXEC else ():
        run("train", corpus, "-o", folder / "s.h5", "--seed", seed, "--epochs", 40)
        scores.append(held_out_median(corpus, folder / "s.h5"))
    if MPIEXEC:
        run("train", corpus, "-o", folder / "s.h5", "--seed", 1, "--epochs", 40, "--ranks-per-model", 2, ranks=2)
        two = held_out_median(corpus, folder / "s.h5")
        spread = max(scores) - min(scores)
        assert min(scores) - spread - 0.01 <= two <= max(scores) + spread + 0.01, (scores, two)
        print("held-out median error: seeds on one rank", scores, "two ranks", two)

    # Each device class left out in turn: every model as train --holdout-device makes it.
    for device in ("a100-40gb", "p100"):
        run("collect", folder / "sweep.toml", "-o", folder / device, "--backend", "replay", "--replay", f"{device}:noise=0.05")
    corpora = [corpus, folder / "a100-40gb/corpus.h5", folder / "p100/corpus.h5"]
    out = run("evaluate", "--leave-one-device-out", *corpora, "--epochs", 4, "--json", ranks=2 if MPIEXEC else 0)
    rows = json.loads(out.stdout)["rows"]
    assert {row["split"] for row in rows} == {"held_out_device"}, rows
    total = {row["device"]: row for row in rows if row["op"] == row["pass"] == "all"}
    assert len(total) == 3 and all(row["n"] == 480 for row in total.values()), total
    name = next(device for device in total if "v100" in device)
    run("train", *corpora, "-o", folder / "held.h5", "--epochs", 4, "--holdout-device", name)
    rows = json.loads(run("evaluate", folder / "held.h5", corpus, "--json").stdout)["rows"]
    assert total[name] == next(row for row in rows if row["op"] == row["pass"] == "all"), (total[name], rows)
    for arguments, says in (((corpus,), "at least two device classes"), ((), "at least one corpus")):
        done = run("evaluate", "--leave-one-device-out", *arguments, expect=2)
        assert says in done.stderr and done.stderr.count("\n") <= 2, done.stderr
    done = run("evaluate", folder / "held.h5", corpus, "--epochs", 4, expect=2)
    assert "--leave-one-device-out" in done.stderr, done.stderr

    # Bad input: one line and the documented code.
    def refused(code, *arguments, says):
        done = run("train", *arguments, expect=code)
        assert says in done.stderr and done.stderr.count("\n") <= 2, done.stderr

    refused(2, corpus, says="--output")
    refused(2, corpus, "-o", folder / "m.h5", "--preset", "justus", says="known: default, justus2018")
    refused(2, corpus, "-o", folder / "m.h5", "--resume", says="--checkpoint")
    refused(2, corpus, "-o", folder / "m.h5", "--ranks-per-model", 2, says="a divisor of the 1 rank")
    refused(2, corpus, "-o", folder / "m.h5", "--ranks-per-model", 0, says="at least 1")
    refused(2, corpus, "-o", folder / "m.h5", "--collective-timeout", 0, says="positive")
    refused(2, corpus, "-o", folder / "m.h5", "--checkpoint", "", says="expected a directory")
    refused(2, corpus, "-o", folder / "m.h5", "--checkpoint", corpus, says="it is a file")
    refused(3, corpus, "-o", folder / "m.h5", "--device", "cuda", says="CUDA")
    refused(3, folder / "absent.h5", "-o", folder / "m.h5", says="absent.h5")
    refused(3, corpus, "-o", folder / "no/such/m.h5", says="no such directory: create it")
    damaged = bytearray(corpus.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (folder / "damaged.h5").write_bytes(damaged)
    (folder / "damaged.h5.sha256").write_text(
        (folder / "run/corpus.h5.sha256").read_text().replace("corpus.h5", "damaged.h5"))
    refused(4, folder / "damaged.h5", "-o", folder / "m.h5", says="damaged.h5")
    run("train", folder / "damaged.h5", "-o", folder / "m.h5", ranks=2 if MPIEXEC else 0, expect=4)
    # A directory of a run that goes on may be another one to each rank.
    if MPIEXEC:
        (folder / "other.toml").write_text(SWEEP.replace("samples = 120", "samples = 3"))
        subprocess.run([FORECOST, "collect", folder / "other.toml", "-o", folder / "other", "--backend", "replay"],
                       check=True, capture_output=True, timeout=120)
        one, other = (["-n", "1", FORECOST, "train", each, "-o", folder / "m.h5"]
                      for each in (corpus, folder / "other"))
        command = [MPIEXEC, "--oversubscribe", *one, ":", *other]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 4 and "changed while the ranks read them" in done.stderr, done
    assert not (folder / "m.h5").exists()
    print("ok")
