"""Eight Linear layers, forward only: the loop whose slowdown under a tracer is measured.

torch_linear.py [BATCHES [SERIES | --profiler]]

Prints the fastest of BATCHES (40) batches of 50 iterations in microseconds an iteration, their median, how long a
piece of Python took that calls nothing (how fast this processor was), and a checksum of the result, so that runs with
and without a tracer can be compared. SERIES is a file that gets a line for each batch: seconds since the start,
microseconds an iteration until all was enqueued and until all was done, and microseconds of that piece of Python.
With --profiler it runs under torch.profiler with calls and GPU times.
"""
import contextlib
import statistics
import sys
import time

import torch

torch.manual_seed(1)
layers = [torch.nn.Linear(256, 256).cuda() for _ in range(8)]
x = torch.ones(32, 256, device="cuda")


@torch.no_grad()
def step():
    y = x
    for layer in layers:
        y = torch.relu(layer(y))
    return y


def spin():
    start = time.perf_counter()
    total = 0
    for i in range(5000):
        total += i & 7
    return time.perf_counter() - start


more = sys.argv[2] if len(sys.argv) > 2 else None
profiler = contextlib.nullcontext()
if more == "--profiler":
    from torch.profiler import ProfilerActivity, profile

    profiler = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
batches = []
with profiler:
    for _ in range(200):
        step()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 40):
        start = time.perf_counter()
        for _ in range(50):
            y = step()
        enqueued = time.perf_counter()
        torch.cuda.synchronize()
        done = time.perf_counter()
        batches.append((start - began, (enqueued - start) / 50, (done - start) / 50, spin()))
times = [done for _, _, done, _ in batches]
print(f"best_us {min(times) * 1e6:.1f} median_us {statistics.median(times) * 1e6:.1f} "
      f"spin_ns {statistics.median(spun for *_, spun in batches) / 5000 * 1e9:.2f} "
      f"checksum {y.double().sum().item():.10e}")
if more and more != "--profiler":
    with open(more, "w") as file:
        for at, enqueued, done, spun in batches:
            print(f"{at:.4f} {enqueued * 1e6:.1f} {done * 1e6:.1f} {spun * 1e6:.1f}", file=file)
