#!/usr/bin/env python3
"""Checks a trace of tests/gpu/uvm.sh.

uvm_check.py TRACE BYTES      migrations: BYTES to the GPU and as many back, faults on both sides
uvm_check.py --ranges TRACE   the ranges of tests/programs/nvtx.cu
uvm_check.py --torch TRACE    the ranges of tests/gpu/torch_nvtx.py
Prints what it found; exits 1 if something is not so."""
import collections
import json
import sys


def lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def check(condition, what):
    if not condition:
        sys.exit(f"FAIL: {what}")


def migrations(path, expected):
    trace = lines(path)
    events = [line for line in trace if line["type"] == "gpu_mem" and line.get("phase") != "B"]
    counts = collections.Counter(line["name"] for line in events)
    print("events:", dict(counts))
    moved, busy = collections.Counter(), collections.Counter()
    for line in events:
        if line["name"] == "migration":
            details = line["details"]
            moved[details["direction"], details["cause"]] += details["bytes"]
            busy[details["direction"]] += line["duration_us"]
            check(details["source"] != details["target"], line)
    print("bytes by direction and cause:", {" ".join(key): value for key, value in sorted(moved.items())})
    for direction in ("H2D", "D2H"):
        total = sum(value for key, value in moved.items() if key[0] == direction)
        print(f"{direction}: {total} bytes in {busy[direction]:.0f} us of copying, {total / busy[direction] / 1e3:.1f} GB/s")
        check(total == expected, f"{direction}: {total} bytes, not {expected}")
    check(counts["cpu_fault"] > 0 and counts["gpu_fault"] > 0, "no faults")
    launches = [line["ts"] for line in trace if line["type"] == "kernel" and line.get("op") == "launch"]
    first = min(line["ts"] for line in events if line["name"] == "gpu_fault")
    print(f"first GPU fault {1000 * (first - launches[0]):.1f} us after the launch call returned")
    check(0 <= first - launches[0] + 0.1 < 1000, "the GPU's faults are not on the trace's clock")
    lost = trace[-1]["lost"]
    check(lost == 0, f"{lost} lost")
    samples(trace)


def samples(trace):
    found = [line for line in trace if line["type"] == "counter"]
    print("NVML samples:", len(found), found[-1]["details"] if found else "")
    times = [line["ts"] for line in found if line["device"] == 0]
    gaps = sorted(b - a for a, b in zip(times, times[1:]))
    if gaps:
        print(f"from sample to sample: median {gaps[len(gaps) // 2]:.1f} ms")


def ranges(path):
    trace = lines(path)
    names = collections.Counter(line["name"] for line in trace if line["type"] == "range" and line.get("phase") == "E")
    print("ranges:", dict(names))
    check(names["step"] == 5 and names["set up"] == 1 and names["other thread"] == 1, names)
    check(sum(line["type"] == "process_range" for line in trace) == 2, "no process range")


def torch(path):
    trace = lines(path)
    ended = [line for line in trace if line["type"] == "range" and line.get("phase") == "E"]
    names = collections.Counter(line["name"].split(" ")[0] for line in ended)
    marks = [line for line in trace if line["type"] == "range" and "phase" not in line]
    print("ranges:", dict(names), "marks:", len(marks))
    check(names["step"] == 10 and names["forward"] == 10 and names["backward"] == 10, names)
    check(len(marks) == 10, "marks")
    begun = {line["op_id"]: line for line in trace if line.get("phase") == "B"}
    forward = sum(
        1
        for line in trace
        if line["type"] == "userspace" and line.get("phase") == "B" and line["layer"] == "runtime"
        and begun.get(line.get("parent"), {}).get("name") == "forward"
    )
    print("runtime calls inside of 'forward':", forward)
    check(forward > 0, "no calls inside of the ranges")
    samples(trace)


if sys.argv[1] == "--ranges":
    ranges(sys.argv[2])
elif sys.argv[1] == "--torch":
    torch(sys.argv[2])
else:
    migrations(sys.argv[1], int(sys.argv[2]))
print("ok")
