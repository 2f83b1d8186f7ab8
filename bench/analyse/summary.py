#!/usr/bin/env python3
"""The headline numbers of a trace with nothing but Python's json: what one would write without cutrace."""
import collections
import json
import sys

calls = launches = allocations = transfers = ioctls = lost = 0
allocated = moved = ioctl_us = 0
functions = collections.defaultdict(lambda: [0, 0.0])
categories = collections.defaultdict(lambda: [0, 0.0])
gpu = []
with open(sys.argv[1]) as file:
    for line in file:
        event = json.loads(line)
        kind = event["type"]
        if kind == "memory" and event["op"] == "alloc":
            allocations += 1
            allocated += event.get("size", 0)
        elif kind == "transfer":
            transfers += 1
            moved += event["size"]
        elif kind == "kernel" and event.get("op") == "launch":
            launches += 1
        elif kind == "lost":
            lost += event["count"]
        elif event.get("phase") == "E":
            duration = event["duration_us"]
            for table, key in ((functions, event["name"]), (categories, event["category"])):
                entry = table[key]
                entry[0] += 1
                entry[1] += duration
            if kind == "userspace":
                calls += 1
            elif kind == "ioctl":
                ioctls += 1
                ioctl_us += duration
            elif kind == "gpu":
                end = event["ts"] * 1000
                gpu.append((end - duration, end))

# The GPU's busy time is the union of its intervals, not their sum.
gpu.sort()
busy = reached = 0.0
for start, end in gpu:
    busy += max(0.0, end - max(start, reached))
    reached = max(reached, end)

print("calls", calls, "launches", launches, "allocations", allocations, allocated)
print("transfers", transfers, moved, "ioctls", ioctls, round(ioctl_us, 3), "lost", lost)
print("gpu busy us", round(busy, 3))
for table in (categories, functions):
    for name, (count, total) in sorted(table.items(), key=lambda item: -item[1][1])[:10]:
        print(f"{name:60} {count:10} {total:16.3f}")
