"""Counts the launches of a trace (JSON lines on stdin) by where their kernels' names are from, and by kernel.

usage: cutrace cat TRACE | count.py FILE HANDLES     exits 1 if there is no launch, or if a kernel of PyTorch's own has no name

HANDLES gets some of the driver's handles as JSON, with the names of their kernels where they are known: for dump.py.
"""

import collections
import json
import sys

from_driver = set()
launches = []
# The driver's handles by call, and the call around it.
handles, inside = {}, collections.defaultdict(list)
for text in sys.stdin:
    if '"name_from"' not in text and '"launch"' not in text and '"cuLaunchKernel' not in text:
        continue
    line = json.loads(text)
    if line.get("phase") == "B" and "f" in line.get("details", {}):
        handles[line["op_id"]] = line["details"]["f"]
        inside[line.get("parent")].append(line["details"]["f"])
    if line.get("details", {}).get("name_from") == "driver":
        from_driver.add(line["op_id"])
    elif line.get("type") == "kernel" and line.get("op") == "launch":
        launches.append((line.get("op_id"), line.get("call") or line.get("name"), line["kernel"]))

kernels = collections.Counter()
origins = collections.Counter()
for op, call, kernel in launches:
    if kernel.startswith("unknown kernel"):
        origin = "unknown"
    elif kernel.startswith("0x"):
        origin = "bare handle"
    else:
        origin = "the driver's structures" if op in from_driver else "calls and the program's functions"
    origins[origin] += 1
    kernels[origin, call, kernel] += 1
known, others = {}, {}
for op, call, kernel in launches:
    if call.startswith("cuda") and len(inside[op]) == 1:
        known[inside[op][0]] = kernel
    elif op in handles:
        others[handles[op]] = kernel
with open(sys.argv[2], "w") as file:
    few = lambda kernels: dict(list(kernels.items())[:12])
    json.dump({"known": few(known), "others": few(others)}, file)
with open(sys.argv[1], "w") as file:
    print(f"{len(launches)} launches", file=file)
    for origin, count in origins.most_common():
        different = sum(1 for key in kernels if key[0] == origin)
        print(f"{count:8} {origin}, {different} different kernels", file=file)
    print(f"{len(known)} handles inside of the runtime's launches, to learn from; {len(others)} launched directly", file=file)
    print(file=file)
    # Those without a name first: they are what is looked for.
    for (origin, call, kernel), count in sorted(kernels.items(), key=lambda one: (one[0][0] != "unknown", -one[1])):
        print(f"{count:8} {origin:34} {call:20} {kernel}", file=file)
# The runtime is given an address of the program's: those launches must have names.
nameless = any(key[0] in ("unknown", "bare handle") and key[1].startswith("cuda") for key in kernels)
sys.exit(not launches or nameless)
