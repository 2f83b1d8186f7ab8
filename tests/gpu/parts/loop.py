"""The loop of tests/gpu/torch_linear.py, hooked in another way from batch to batch; under the cutrace of build.py only.

loop.py [ROUNDS [ITERATIONS]]

Each batch with hooks is between two without; it is compared with those that ran at the same speed of the processor, by a
piece of Python that calls nothing before and after each (within 6 %). Prints for each way by how many percent the median
batch took longer, and of how many. WAYS=everything,clock: those only. With CUTRACE_PARTS_DRIVER it calls the driver
only and needs no torch: for a try without a GPU.
"""
import collections
import ctypes
import os
import random
import statistics
import sys
import time

rounds, iterations = (int(word) for word in (sys.argv[1:] + ["80", "20"][len(sys.argv) - 1:])[:2])
library = ctypes.CDLL(None)
try:
    choose = library.cutrace_choose_way
except AttributeError:
    sys.exit("loop.py: not under the cutrace of tests/gpu/parts/build.py")
ways = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, "cutrace_way_names"))).decode().split(",")

if "CUTRACE_PARTS_DRIVER" in os.environ:
    driver = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_int()
    driver.cuInit(0)

    def step():
        for _ in range(100):
            driver.cuDeviceGetCount(ctypes.byref(count))

    def synchronize():
        pass
else:
    import torch

    torch.manual_seed(1)
    layers = [torch.nn.Linear(256, 256).cuda() for _ in range(8)]
    x = torch.ones(32, 256, device="cuda")
    synchronize = torch.cuda.synchronize

    @torch.no_grad()
    def step():
        y = x
        for layer in layers:
            y = torch.relu(layer(y))
        return y


asked = os.environ.get("WAYS", ",".join(ways)).split(",")


def spin():
    start = time.perf_counter()
    total = 0
    for i in range(2000):
        total += i & 7
    return time.perf_counter() - start


def batch(way):
    if way is None:
        choose(-1)
    else:
        choose(-2)
        choose(ways.index(way))
    for _ in range(3):
        step()
    synchronize()
    before = spin()
    start = time.perf_counter()
    for _ in range(iterations):
        step()
    synchronize()
    done = time.perf_counter() - start
    return way, done / iterations * 1e6, (before, spin())


for _ in range(200):
    step()
synchronize()
batches = []
for _ in range(rounds):
    for way in random.sample(asked, len(asked)):
        batches += [batch(None), batch(way)]
choose(-2)
choose(0)
longer = collections.defaultdict(list)
for one, other in zip(batches, batches[1:]):
    spins = one[2] + other[2]
    if max(spins) > 1.06 * min(spins):
        continue
    (_, bare, _), (way, hooked, _) = (one, other) if one[0] is None else (other, one)
    longer[way].append(100 * (hooked / bare - 1))
bare = sorted(time for way, time, _ in batches if way is None)
print(f"without hooks: a tenth {bare[len(bare) // 10]:.1f} us, median {statistics.median(bare):.1f} us")
for way in asked:
    if longer[way]:
        print(f"  {way:16} {statistics.median(longer[way]):+6.2f} % ({len(longer[way])})")
