"""Eight Linear layers, forward only: the loop whose slowdown under a tracer is measured.

Prints the fastest iteration in microseconds and a checksum of the result, so that runs with and
without a tracer can be compared.
"""
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


for _ in range(200):
    step()
torch.cuda.synchronize()
best = float("inf")
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 40):
    start = time.perf_counter()
    for _ in range(50):
        y = step()
    torch.cuda.synchronize()
    best = min(best, (time.perf_counter() - start) / 50)
print(f"best_us {best * 1e6:.1f} checksum {y.double().sum().item():.10e}")
