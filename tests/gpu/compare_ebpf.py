"""Counts of calls and ioctls in the traces of ebpf.sh, side by side. Exits 1 if they differ by more
than the same method differs from itself between two runs."""

import collections
import json
import sys

folder = sys.argv[1]


def counts(name):
    calls, ioctls, bare, lost = collections.Counter(), collections.Counter(), 0, 0
    for line in open(f"{folder}/{name}.jsonl"):
        one = json.loads(line)
        if one.get("type") == "lost":
            lost += one.get("count", 0)
        if one.get("phase") != "E":
            continue
        if one["type"] == "userspace":
            calls[one["name"]] += 1
        elif one["type"] == "ioctl":
            decoded = one.get("decoded", {})
            ioctls[decoded.get("name", hex(one.get("cmd", 0)) if isinstance(one.get("cmd"), int) else one.get("cmd"))] += 1
            # What is zero is left out, but the driver's answer is in every struct that has one. nvidia-uvm's
            # numbers have no size, and one of its requests has no struct.
            has_struct = decoded.get("size", 1) != 0 and decoded.get("name") != "UVM_DEINITIALIZE"
            bare += has_struct and not decoded.keys() & {"args", "results", "status"}
    return calls, ioctls, bare, lost


def unlike(one, other):
    return {name: (one[name], other[name]) for name in one.keys() | other.keys() if one[name] != other[name]}


preload = [counts(f"preload_{round}") for round in (1, 2)]
ebpf = [counts(f"ebpf_{round}") for round in (1, 2)]
syscall = [counts(f"syscall_{round}") for round in (1, 2)]
own_calls = unlike(preload[0][0], preload[1][0]).keys() | unlike(ebpf[0][0], ebpf[1][0]).keys()
own_ioctls = unlike(ebpf[0][1], ebpf[1][1]).keys() | unlike(syscall[0][1], syscall[1][1]).keys()
failed = False
for what, one, other, own in (
    ("API calls, preload / ebpf", preload[0][0], ebpf[0][0], own_calls),
    ("ioctls, syscall / ebpf", syscall[0][1], ebpf[0][1], own_ioctls),
):
    differ = {name: pair for name, pair in unlike(one, other).items() if name not in own}
    print(f"{what}: {sum(one.values())} / {sum(other.values())}, {len(one)} / {len(other)} names; "
          f"differ from run to run: {len(own)}; differ otherwise: {differ or 'none'}")
    failed |= bool(differ)
print(f"lost: preload {preload[0][3]}, ebpf {ebpf[0][3]}; ioctls of ebpf whose struct is missing: {ebpf[0][2]}")
sys.exit(failed)
