"""Counts the launches of a trace (JSON lines on stdin) by where their kernels' names are from, and by kernel.

usage: cutrace cat TRACE | count.py FILE     exits 1 if there is no launch, or if a kernel of PyTorch's own has no name
"""

import collections
import json
import sys

from_driver = set()
launches = []
for text in sys.stdin:
    if '"name_from"' not in text and '"launch"' not in text:
        continue
    line = json.loads(text)
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
with open(sys.argv[1], "w") as file:
    print(f"{len(launches)} launches", file=file)
    for origin, count in origins.most_common():
        different = sum(1 for key in kernels if key[0] == origin)
        print(f"{count:8} {origin}, {different} different kernels", file=file)
    print(file=file)
    # Those without a name first: they are what is looked for.
    for (origin, call, kernel), count in sorted(kernels.items(), key=lambda one: (one[0][0] != "unknown", -one[1])):
        print(f"{count:8} {origin:34} {call:20} {kernel}", file=file)
# The runtime is given an address of the program's: those launches must have names.
nameless = any(key[0] in ("unknown", "bare handle") and key[1].startswith("cuda") for key in kernels)
sys.exit(not launches or nameless)
