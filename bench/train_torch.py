"""The same training step as bench/train.cpp in PyTorch on one thread: rows/s at batch 128 and 1024,
beside the rate of its own matrix product, which tells whether it has a fast BLAS."""
import sys
import time

import torch

torch.set_num_threads(1)
budget_s = float(sys.argv[1]) if len(sys.argv) > 1 else 2
a, b = torch.randn(1024, 256), torch.randn(256, 256)
best, begin = float("inf"), time.monotonic()
while time.monotonic() - begin < budget_s / 4:
    start = time.perf_counter()
    a @ b
    best = min(best, time.perf_counter() - start)
print(f"GEMM 1024 x 256 x 256 (torch {torch.__version__}), GFLOP/s: {2 * 1024 * 256 * 256 / best / 1e9:.1f}")
for batch in (128, 1024):
    layers = []
    for width_in, width in ((40, 256), (256, 256), (256, 256)):
        layers += [torch.nn.Linear(width_in, width), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(256, 1))
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    rows = 8 * batch
    x, y = torch.randn(rows, 40), torch.randn(rows, 1)
    best, begin = float("inf"), time.monotonic()
    while time.monotonic() - begin < budget_s:
        order = torch.randperm(rows)
        start = time.perf_counter()
        for step in range(8):
            index = order[step * batch:(step + 1) * batch]
            optimizer.zero_grad()
            torch.nn.functional.smooth_l1_loss(network(x[index]), y[index], beta=0.1).backward()
            optimizer.step()
        best = min(best, time.perf_counter() - start)
    print(f"train 3 x 256 {batch} torch, rows/s: {rows / best:.0f}")
