"""A training script to attach to: train.py run STEPS LOG READY | train.py profiler

run       STEPS steps; each adds a line to LOG: its number, when it began and ended (CLOCK_MONOTONIC), its loss. READY is
          made once it is in its stride.
profiler  prints how many kernels, copies and memsets torch.profiler counts in ten steps
"""
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch.profiler import ProfilerActivity, profile

torch.use_deterministic_algorithms(True)
torch.manual_seed(7)
net = torch.nn.Sequential(
    torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512)
).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
x, target = torch.randn(256, 512, device="cuda"), torch.randn(256, 512, device="cuda")


def step():
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(net(x), target)
    loss.backward()
    optimizer.step()
    return loss.item()


for _ in range(50):
    step()
torch.cuda.synchronize()
if sys.argv[1] == "profiler":
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(10):
            step()
        torch.cuda.synchronize()
    on_gpu = [
        e
        for e in profiler.events()
        if e.device_type == torch.autograd.DeviceType.CUDA and not e.name.startswith("Optimizer.")
    ]
    print("profiler", len(on_gpu) / 10)
else:
    count, log, ready = int(sys.argv[2]), sys.argv[3], sys.argv[4]
    with open(log, "w", buffering=1) as file:
        for number in range(count):
            began = time.monotonic_ns()
            loss = step()
            file.write(f"{number} {began} {time.monotonic_ns()} {loss!r}\n")
            if number == 200:
                with open(ready, "w") as mark:
                    mark.write(str(os.getpid()))
    print("done", count)
