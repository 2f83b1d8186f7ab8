#!/usr/bin/env python3
"""How many of a trace's ioctls have names: requests, controls, classes. What is below the target is a line
'MISSED'; exits 1 only where there are no ioctls at all.
usage: ioctl_names.py TRACE.jsonl"""
import collections
import json
import sys

counts = collections.Counter()
unknown = collections.Counter()
facts = collections.Counter()
with open(sys.argv[1]) as lines:
    for text in lines:
        if '"type":"ioctl"' not in text:
            continue
        line = json.loads(text)
        if line.get("phase") != "E":
            continue
        decoded = line.get("decoded", {})
        kind = "frontend" if "dir" in decoded else "uvm"
        counts[kind] += 1
        if "name" not in decoded:
            unknown[kind] += 1
            print("unknown request", hex(line["cmd"]))
        for what in ("control", "class"):
            if what in decoded:
                counts[what] += 1
                if decoded[what].startswith("0x"):
                    unknown[what] += 1
                    print("unknown", what, decoded[what])
        status = decoded.get("status")
        if status not in (None, "NV_OK"):
            counts["refused"] += 1
        if line.get("status"):
            counts["errno"] += 1
        if "doubt" in decoded:
            counts["doubt"] += 1
            print("doubt:", decoded["doubt"])
        for fact in decoded.get("facts", []):
            facts[fact["fact"]] += 1
print("ioctls:", dict(counts), "unknown:", dict(unknown))
print("facts:", dict(facts))
named = 1 - unknown["control"] / max(1, counts["control"])
print(f"controls named: {named:.1%}")
for kind in ("frontend", "uvm", "class"):
    if unknown[kind]:
        print(f"MISSED: {unknown[kind]} of {counts[kind]} {kind} without a name; the target is 0")
if named < 0.95:
    print(f"MISSED: {named:.1%} of the controls named; the target is 95 %")
sys.exit(0 if counts["frontend"] > 0 else 1)
