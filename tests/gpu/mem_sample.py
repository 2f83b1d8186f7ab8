"""`gpu mem --sample` beside `gpu mem`: what it costs, and whether its numbers are as near as it says.

    mem_sample.py CUTRACE PROBE_COST [--sim]      PROBE_COST is tests/programs/probe_cost, built; done within 120 s

Prints microseconds of GPU time for each kernel (the least of three launches) and the ratio to the plain run, and how many accesses'
requests are within the stated error of the exact count. Ends with 1 if fewer than 9 of 10 are.
"""
import json
import re
import subprocess
import sys
import tempfile

cutrace, program, *more = sys.argv[1:]
sim = "--sim" in more
command = [program, "1", "65536"] if sim else [program, "3", str(4 << 20)]
folder = tempfile.mkdtemp()


def times(text):
    return {kernel: float(least) for kernel, least in re.findall(r"^(\w+) ([\d.]+) [\d.]+$", text, re.M)}


def run(name, words):
    trace = f"{folder}/{name}.jsonl"
    line = [cutrace, "gpu", "mem", *words, *(["--sim"] if sim else []), "-o", trace, "*", "--", *command]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=300)
    if ran.returncode:
        sys.exit(f"{name}: {ran.stderr[-2000:]}")
    counted = {}
    for line in open(trace):
        if '"name":"access"' in line:
            details = json.loads(line)["details"]
            counted[details["access"]] = details
    return times(ran.stdout), counted


plain = times(subprocess.run([cutrace, "softgpu", "--", *command] if sim else command, capture_output=True, text=True).stdout)
kernels = list(plain)
print(f"{'':10}" + "".join(f"{kernel:>24}" for kernel in kernels))


def row(name, found):
    cells = "".join(f"{found[kernel]:>14.1f} {found[kernel] / plain[kernel]:>7.2f} x" for kernel in kernels)
    print(f"{name:10}{cells}", flush=True)


row("plain", plain)
took, exact = run("all", [])
row("all", took)
wrong = 0
for part in (4, 16, 64):
    took, sampled = run(f"1_{part}", ["--sample", f"1/{part}"])
    row(f"1/{part}", took)
    # Few samples say little of how often an error is kept to.
    judged = {number: one for number, one in sampled.items() if one["requests"] / part >= 20}
    near = [abs(one["requests"] / exact[number]["requests"] - 1) * 1e6 <= one["error_ppm"] for number, one in judged.items()]
    unit = lambda one: one.get("sectors", one.get("passes")) / one["requests"]
    apart = [abs(unit(one) / unit(exact[number]) - 1) for number, one in judged.items()]
    ok = not near or sum(near) >= 0.9 * len(near)
    wrong += not ok
    print(f"          {len(exact)} accesses, {len(sampled)} met, {sum(near)} of {len(near)} within the stated error; sectors or passes a request "
          f"differ by {max(apart, default=0) * 100:.2f} % at most: {'ok' if ok else 'WRONG'}", flush=True)
    total = lambda counted: sum(one["requests"] for one in counted.values())
    print(f"          requests in all {total(sampled):,} for {total(exact):,}: {100 * (total(sampled) / total(exact) - 1):+.2f} %", flush=True)
sys.exit(wrong > 0)
