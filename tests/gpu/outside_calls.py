#!/usr/bin/env python3
"""The ioctls of a trace that lie in no API call: when, in which thread, how far from the calls around.
usage: outside_calls.py TRACE.jsonl [THREADS]     THREADS: lines 'tid name', as the program had them at its end"""
import collections
import json
import sys

names = {}
if len(sys.argv) > 2:
    try:
        with open(sys.argv[2]) as lines:
            names = dict(line.rstrip("\n").split(" ", 1) for line in lines)
    except OSError as why:
        print("no names of threads:", why)
depth = collections.Counter()
calls = collections.defaultdict(list)  # a thread's outermost calls: beginning, end, name
begun = {}
outside = []
total = 0
with open(sys.argv[1]) as lines:
    for text in lines:
        line = json.loads(text)
        thread = (line.get("pid"), line.get("tid"))
        if line.get("type") == "userspace":
            depth[thread] += 1 if line["phase"] == "B" else -1
            if line["phase"] == "B" and depth[thread] == 1:
                calls[thread].append([line["ts"], None, line["name"]])
            elif line["phase"] == "E" and depth[thread] == 0 and calls[thread]:
                calls[thread][-1][1] = line["ts"]
        elif line.get("type") == "ioctl" and line.get("phase") == "B":
            total += 1
            if "correlation" not in line:
                begun[line["op_id"]] = line
        elif line.get("type") == "ioctl" and line.get("op_id") in begun:
            outside.append((begun.pop(line["op_id"]), line))
with_calls = {pid for pid, _ in calls}
reasons = collections.Counter()
for begin, end in outside:
    thread = (begin["pid"], begin["tid"])
    here = calls.get(thread, [])
    before = [call for call in here if call[0] <= begin["ts"]]
    after = [call for call in here if call[0] > begin["ts"]]
    if not here:
        why, more = "thread without calls" if begin["pid"] in with_calls else "process without calls", ""
    elif not before:
        why, more = "before its thread's first call", after[0][2]
    elif not after:
        why, more = "after its thread's last call", before[-1][2]
    else:
        gaps = (1000 * (begin["ts"] - (before[-1][1] or before[-1][0])), 1000 * (after[0][0] - end["ts"]))
        why, more = "between two calls", f"{gaps[0]:.1f} us after {before[-1][2]}, {gaps[1]:.1f} us before {after[0][2]}"
    reasons[why] += 1
    decoded = end.get("decoded", {})
    what = " ".join(filter(None, (decoded.get("name", hex(end["cmd"])), decoded.get("control", decoded.get("class")))))
    name = names.get(str(begin["tid"]), "?")
    print(f"outside: {begin['ts']:.3f} ms thread {begin['tid']} ({name}) {what} {end['duration_us']:.1f} us: {why} {more}")
print(f"outside of calls: {len(outside)} of {total} ioctls:", dict(reasons))
