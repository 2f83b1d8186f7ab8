"""Eight Linear layers, forward only, as PyTorch users write them: linear.py BATCHES [profiler]

Prints the fastest and the median of BATCHES batches of 50 iterations, in microseconds an iteration, and how long a
piece of Python took that calls nothing (how fast the processor was). With `profiler`, under torch.profiler with calls and
GPU times.
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


profiler = contextlib.nullcontext()
if sys.argv[2:] == ["profiler"]:
    from torch.profiler import ProfilerActivity, profile

    profiler = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
with profiler:
    for _ in range(200):
        step()
    torch.cuda.synchronize()
    times, spins = [], []
    for _ in range(int(sys.argv[1])):
        start = time.perf_counter()
        for _ in range(50):
            y = step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / 50)
        spins.append(spin())
print(f"best_us {min(times) * 1e6:.1f}")
print(f"median_us {statistics.median(times) * 1e6:.1f}")
print(f"spin_ns {statistics.median(spins) / 5000 * 1e9:.2f}")
print(f"checksum {y.double().sum().item():.10e}")
