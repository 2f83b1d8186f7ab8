"""A training step, for GPU times: gpu_times_torch.py train|profiler|inside

train     steps with a pause before the ones that count; prints when these began and ended
          (CLOCK_MONOTONIC), so that a trace's work in between can be added up
profiler  the same steps under torch.profiler: the number of its kernels and the sum of their times
inside    as profiler, and steps before and after
"""
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile

torch.manual_seed(7)
net = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
x, target = torch.randn(2048, 1024, device="cuda"), torch.randn(2048, 1024, device="cuda")


def steps(count):
    for _ in range(count):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), target).backward()
        optimizer.step()
    torch.cuda.synchronize()


def profiled():
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        steps(20)
    # Ranges of the program, projected onto the GPU, are no work of it.
    on_gpu = [
        e
        for e in profiler.events()
        if e.device_type == torch.autograd.DeviceType.CUDA and not e.name.startswith("Optimizer.")
    ]
    print("profiler", len(on_gpu), f"{sum(e.device_time_total for e in on_gpu):.1f}")


steps(200)
what = sys.argv[1]
if what == "train":
    for _ in range(5):
        time.sleep(0.05)
        began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        steps(20)
        print("train", began, time.clock_gettime_ns(time.CLOCK_MONOTONIC))
else:
    for _ in range(5 if what == "profiler" else 1):
        time.sleep(0.05)
        profiled()
    steps(20)
