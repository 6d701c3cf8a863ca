"""Every operator and pass as Forecost measures it beside the same operator of PyTorch, on the same
cores, taking turns: ten shapes each from common networks, hot, with the same stop rule (the 95 %
interval of the median within 1 %, or the budget).
    operators_torch.py BENCH_OPERATORS [--cores N] [--budget S] [--rounds N] [--only OP[:PASS]]...
A ratio is Forecost's median over PyTorch's, of images the better of PyTorch's two layouts. Outside of
0.8 to 1.25 the line says what PyTorch spent its time in (its profiler, shares of one call). Forecost's
process waits while PyTorch runs. bench/operators.sh sets PyTorch up as fast as it gets."""
import argparse
import json
import os
import statistics
import subprocess
import time

import numpy
import torch

import torch_peer
from torch_peer import interval

parser = argparse.ArgumentParser()
parser.add_argument("bench")
parser.add_argument("--cores", type=int, default=1)
parser.add_argument("--budget", type=float, default=0.5)
parser.add_argument("--rounds", type=int, default=2)
parser.add_argument("--only", nargs="*", default=[])
parser.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
parser.add_argument("--json")
arguments = parser.parse_args()

# Layers by operator: ten shapes each. dict(zip()) keeps them readable.
RESNET = [(64, 64, 56, 1, 1), (64, 64, 56, 3, 1), (256, 128, 56, 1, 1), (128, 128, 28, 3, 1), (512, 256, 28, 1, 1),
          (256, 256, 14, 3, 1), (1024, 512, 14, 1, 1), (512, 512, 7, 3, 1), (3, 64, 224, 7, 2), (128, 128, 56, 3, 2)]
DENSE = [(1, 4096, 4096), (8, 4096, 1000), (16, 2048, 1000), (32, 1024, 1024), (64, 768, 768), (128, 768, 3072),
         (128, 3072, 768), (256, 512, 512), (384, 1024, 1024), (512, 256, 256)]
SEQUENCES = [(1, 128, 768), (1, 384, 768), (1, 1024, 768), (2, 512, 1024), (4, 128, 1024), (8, 64, 512), (8, 128, 768),
             (4, 256, 256), (16, 197, 384), (2, 1024, 1280)]
IMAGES = [(1, 64, 112), (4, 64, 56), (8, 64, 28), (1, 256, 56), (4, 128, 28), (8, 256, 14), (1, 512, 28), (8, 96, 28),
          (2, 192, 28), (16, 512, 7)]


def conv(i, o, side, k, s, extra=""):
    pad = k // 2
    return (f"conv2d batch=2 in_channels={i} out_channels={o} in_h={side} in_w={side} kernel_h={k} kernel_w={k} "
            f"stride_h={s} stride_w={s} pad_top={pad} pad_bottom={pad} pad_left={pad} pad_right={pad}{extra}")


def pool(b, c, side, k, s, mode):
    return f"pool2d batch={b} channels={c} in_h={side} in_w={side} kernel_h={k} kernel_w={k} stride_h={s} stride_w={s} mode={mode}"


LAYERS = {
    "dense": [f"dense batch={b} in_features={i} out_features={o}" for b, i, o in DENSE],
    "conv2d": [conv(*each) for each in RESNET],
    "conv2d depthwise": [conv(c, c, side, k, s, f" groups={c}") for c, side, k, s in
                         [(32, 112, 3, 1), (96, 112, 3, 2), (144, 56, 3, 1), (144, 56, 3, 2), (192, 28, 3, 1),
                          (384, 14, 3, 1), (576, 14, 3, 1), (960, 7, 3, 1), (240, 28, 5, 1), (672, 14, 5, 1)]],
    "conv2d dilated": [conv(c, c, side, 3, 1, f" dilation_h={d} dilation_w={d}") for c, side, d in
                       [(64, 56, 2), (64, 56, 4), (128, 28, 2), (128, 28, 4), (256, 28, 2), (256, 28, 4), (512, 14, 2),
                        (256, 14, 2), (32, 64, 2), (96, 32, 2)]],
    "conv_transpose2d": [
        f"conv_transpose2d batch=2 in_channels={i} out_channels={o} in_h={side} in_w={side} kernel_h={k} kernel_w={k} "
        f"stride_h=2 stride_w=2" for i, o, side, k in
        [(1024, 512, 8, 2), (512, 256, 16, 2), (256, 128, 32, 2), (128, 64, 64, 2), (512, 256, 8, 4), (256, 128, 16, 4),
         (128, 64, 32, 4), (64, 32, 32, 3), (256, 256, 14, 2), (100, 512, 4, 4)]],
    "pool2d max": [pool(b, c, side, *ks, "max") for (b, c, side), ks in zip(IMAGES, [(3, 2), (2, 2)] * 5)],
    "pool2d average": [pool(b, c, side, *ks, "average") for (b, c, side), ks in zip(IMAGES, [(2, 2), (3, 2)] * 5)],
    "pool2d global": [f"pool2d batch={b} channels={c} in_h={side} in_w={side} mode=global_average" for b, c, side in
                      [(8, 512, 7), (16, 512, 7), (32, 512, 7), (8, 1280, 7), (16, 1280, 7), (8, 2048, 7), (32, 2048, 7),
                       (8, 256, 14), (16, 512, 14), (4, 64, 56)]],
    "batch_norm": [f"batch_norm batch={b} channels={c} height={s} width={s}" for b, c, s in IMAGES],
    "batch_norm stored": [f"batch_norm batch={b} channels={c} height={s} width={s} training=0" for b, c, s in IMAGES],
    "layer_norm": [f"layer_norm batch={b} rows={r} features={f}" for b, r, f in SEQUENCES],
    "softmax": [f"softmax batch={b} rows={r} features={f}" for b, r, f in
                [(12, 128, 128), (12, 384, 384), (12, 512, 512), (16, 256, 256), (64, 64, 64), (48, 197, 197), (1, 64, 1000),
                 (1, 32, 30522), (1, 128, 10000), (24, 128, 512)]],
    "elementwise add": [f"elementwise batch={b} features={r * f} operation=add" for b, r, f in SEQUENCES],
    "elementwise multiply": [f"elementwise batch={b} features={r * f} operation=multiply" for b, r, f in SEQUENCES],
    "elementwise divide": [f"elementwise batch={b} features={r * f} operation=divide" for b, r, f in SEQUENCES],
    "elementwise power": [f"elementwise batch={b} features={r * f} operation=power" for b, r, f in SEQUENCES],
    "elementwise scalar": [f"elementwise batch={b} features={r * f} operation=multiply operand=scalar" for b, r, f in SEQUENCES],
    **{f"activation {function}": [f"activation batch={b} features={r * f} function={function}" for b, r, f in SEQUENCES]
       for function in ("relu", "tanh", "sigmoid", "gelu", "silu")},
    "matmul": [f"matmul batch={b} m={m} n={n} k={k}" for b, m, n, k in
               [(12, 128, 128, 64), (12, 128, 64, 128), (12, 384, 384, 64), (12, 384, 64, 384), (16, 512, 512, 64),
                (1, 512, 512, 512), (1, 1024, 1024, 256), (48, 197, 197, 64), (64, 64, 64, 64), (8, 256, 256, 128)]],
    "attention": [f"attention batch={b} heads={h} query_length={l} key_length={l} head_features={d}" for b, h, l, d in
                  [(1, 12, 128, 64), (1, 12, 384, 64), (1, 12, 512, 64), (1, 16, 256, 64), (4, 12, 128, 64), (8, 8, 64, 64),
                   (2, 12, 197, 64), (1, 16, 512, 128), (1, 4, 1024, 64), (1, 32, 128, 128)]],
    "embedding": [f"embedding batch={b} length={l} entries={e} features={f}" for b, l, e, f in
                  [(8, 128, 30522, 768), (1, 512, 30522, 768), (1, 1024, 50257, 768), (16, 35, 10000, 650), (32, 64, 32000, 512),
                   (4, 256, 50257, 1024), (64, 32, 10000, 256), (8, 512, 512, 768), (128, 20, 5000, 128), (16, 128, 2000, 512)]],
    "dropout": [f"dropout batch={b} features={r * f}" for b, r, f in SEQUENCES],
    "reduce sum rows": [f"reduce batch={b} rows={r} features={f} operation=sum axis=rows" for b, r, f in SEQUENCES],
    "reduce mean features": [f"reduce batch={b} rows={r} features={f} operation=mean axis=features" for b, r, f in SEQUENCES],
    "reduce max features": [f"reduce batch={b} rows={r} features={f} operation=max axis=features" for b, r, f in SEQUENCES],
    "transfer": [f"transfer batch=1 features={n} direction=device_to_device" for n in
                 (100_000, 200_000, 400_000, 800_000, 1_600_000, 3_200_000, 6_400_000, 12_800_000, 25_600_000, 51_200_000)],
    **{f"rnn {cell}": [f"rnn batch={b} steps={t} in_features={i} hidden_features={h} layers={n} cell={cell}{extra}"
                       for b, t, i, h, n, extra in
                       [(16, 20, 256, 256, 1, ""), (20, 35, 650, 650, 1, ""), (8, 50, 128, 256, 1, ""), (32, 10, 512, 512, 1, ""),
                        (1, 50, 256, 256, 1, ""), (64, 16, 128, 128, 1, ""), (16, 20, 256, 256, 2, ""),
                        (16, 20, 256, 256, 1, " bidirectional=1"), (8, 30, 300, 512, 1, ""), (4, 64, 64, 256, 1, "")]]
       for cell in ("lstm", "gru", "vanilla")},
}
PASSES = {"dense": ["forward", "backward_data", "backward_weights"], "conv2d": ["forward", "backward_data", "backward_weights"],
          "conv_transpose2d": ["forward", "backward_data", "backward_weights"], "transfer": ["forward"]}
NO_BACKWARD = {"batch_norm stored"}
UPDATES = ["sgd", "momentum", "adagrad", "adadelta", "rmsprop", "adam", "adamw"]


def timed(call):
    """Median seconds of a call, by Forecost's rules for hot tasks."""
    def run(n):
        begin = time.perf_counter()
        for _ in range(n):
            call()
        return time.perf_counter() - begin
    run(1)
    estimate = min(run(1) for _ in range(3))
    runs = max(1, int(numpy.ceil(1e-3 / estimate))) if estimate < 50e-6 else 1
    run(runs)
    samples, begin = [], time.perf_counter()
    while len(samples) < 10 or (time.perf_counter() - begin < arguments.budget and len(samples) < 900 and
                                interval(samples) > 0.01):
        samples.append(run(runs) / runs)
    return statistics.median(samples)


forecost = subprocess.Popen([arguments.bench, str(arguments.cores), str(arguments.budget)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
device = json.loads(forecost.stdout.readline())
os.sched_setaffinity(0, device["processors"])
torch.set_num_threads(len(device["processors"]))
torch.set_grad_enabled(False)


def calls_of(step, optimizer, text):
    """The same in each layout that PyTorch may keep images in, and why it can not where it has none."""
    images = text.split()[0] in torch_peer.IMAGE_OPERATORS and step != "update"
    calls, why = [], ""
    for layout in (torch.contiguous_format, torch.channels_last)[:2 if images else 1]:
        try:
            call = torch_peer.call_of(step, optimizer, text, arguments.dtype, layout)
            call()
            calls.append(call)
        except RuntimeError as error:
            why = "PyTorch fails: " + str(error).splitlines()[0]
    return calls, why


def kernels_of(call):
    """The three that take most of a call."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(3):
            call()
    events = sorted(profile.key_averages(), key=lambda e: -e.self_cpu_time_total)
    total = sum(e.self_cpu_time_total for e in events)
    return ", ".join(f"{e.key.removeprefix('aten::')} {e.self_cpu_time_total / total:.0%}" for e in events[:3])


def ask(task):
    forecost.stdin.write(task + "\n")
    forecost.stdin.flush()
    return json.loads(forecost.stdout.readline())


cases = [(name, step, "none", text) for name, texts in LAYERS.items() for step in
         (["forward"] if name in NO_BACKWARD else PASSES.get(name.split()[0], ["forward", "backward"])) for text in texts]
cases += [("update", "update", optimizer, text) for optimizer in UPDATES for text in LAYERS["dense"]]
wanted = [each for each in cases if not arguments.only or any(
    each[0].startswith(o.split(":")[0]) and (":" not in o or each[1] == o.split(":")[1]) for o in arguments.only)]
print(f"PyTorch {torch.__version__}, {device['class']}, {arguments.dtype}, hot; Forecost's median time over PyTorch's")
print(f"{'operator':22} {'pass':17} {'n':>3} {'median':>7} {'least':>7} {'most':>7}   {'Forecost ran'}")
results, groups = [], {}
for name, step, optimizer, text in wanted:
    task = f"{step} {arguments.dtype} {optimizer} hot heuristic {text}"
    calls, torch_fails = calls_of(step, optimizer, text)
    ours, theirs, answer = [], [[] for _ in calls], {"status": "failed", "reason": torch_fails}
    for _ in range(arguments.rounds if calls else 0):
        answer = ask(task)
        if "median_s" not in answer:
            break
        ours.append(answer["median_s"])
        for call, times in zip(calls, theirs):
            times.append(timed(call))
    best = min(range(len(calls)), key=lambda i: min(theirs[i], default=0), default=0)
    if ours:
        last = calls[best]
    key = (name if step != "update" else f"update {optimizer}", step)
    results.append({"task": task, "ours_s": ours, "torch_s": theirs[best] if calls else [], "layout": best, **answer})
    groups.setdefault(key, []).append(results[-1])
    if len(groups[key]) < len(LAYERS.get(name, DENSE)):
        continue
    ratios = sorted(min(r["ours_s"]) / min(r["torch_s"]) for r in groups[key] if r["ours_s"])
    ran = sorted({r["implementation"] for r in groups[key] if "implementation" in r})
    why = "" if ratios else f"{answer['status']}: {answer['reason']}"
    text_of = lambda value: f"{value:7.2f}" if ratios else f"{'-':>7}"
    outside = ratios and not 0.8 <= statistics.median(ratios) <= 1.25
    if outside:
        why = f"{', '.join(ran)}; PyTorch: {kernels_of(last)}"
    mark = "!" if outside or not ratios else " "
    print(f"{key[0]:22} {step:17} {len(ratios):3} " + " ".join(
        text_of(f(ratios) if ratios else 0) for f in (statistics.median, min, max)) + f" {mark} {why or ', '.join(ran)}", flush=True)
if arguments.json:
    with open(arguments.json, "w") as out:
        json.dump(results, out)
forecost.stdin.close()
