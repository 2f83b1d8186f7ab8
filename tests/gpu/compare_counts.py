"""Compares cutrace's count of every call with CUPTI's, for the same program.

    compare_counts.py TRACE.jsonl COUNTS

COUNTS is what cupti.so wrote. Prints one line for each name whose counts differ, with the reason
where there is a known one, and a last line with the totals. Exits 1 if a difference has no reason.
"""
import collections
import json
import re
import sys

# Why a count may differ. CUPTI numbers the API's functions; what has no number it never reports.
REASONS = [
    (r"__cuda", "CUPTI has no callback for the compiler's own entry points"),
    (r"cuGetProcAddress|cuGetExportTable|cuDriverGetVersion|cuInit|cudaInitDevice",
     "called while CUPTI is being loaded, or before"),
    (r"cuProfiler|cuDevice|cuCtx|cuModule|cuLibrary|cuKernel|cuGetErrorString|cuGetErrorName",
     None),
]
# Runtime functions that no trace shows: the runtime is linked in without symbols.
HIDDEN = "a runtime linked in without symbols: its cuda* calls have no entry to hook"


def family(name):
    """CUPTI names the version that a function appeared in, and both name streams' defaults."""
    name = re.sub(r"_v\d{4,5}$", "", name)
    return re.sub(r"_(ptsz|ptds)$", "", name)


def traced(path):
    counts = collections.Counter()
    notes = set()
    with open(path) as lines:
        for line in lines:
            if '"phase":"B"' in line:
                event = json.loads(line)
                if event["layer"] in ("driver", "runtime"):
                    counts[family(event["name"])] += 1
            elif '"type":"summary"' in line:
                notes.add(json.loads(line).get("lost", 0))
    return counts, notes


def reported(path):
    counts = collections.Counter()
    with open(path) as lines:
        for line in lines:
            domain, name, count = line.split()
            if domain in ("driver", "runtime"):
                counts[family(name)] += int(count)
    return counts


def reason(name, ours, theirs):
    if theirs == 0 and name.startswith("__cuda"):
        return REASONS[0][1]
    for pattern, why in REASONS[1:]:
        if why and re.match(pattern, name):
            return why
    if name.startswith("cuda") and ours < theirs and "--static-runtimes" in sys.argv:
        return HIDDEN
    return None


def main():
    ours, lost = traced(sys.argv[1])
    theirs = reported(sys.argv[2])
    equal = unexplained = 0
    for name in sorted(set(ours) | set(theirs)):
        a, b = ours[name], theirs[name]
        if a == b:
            equal += 1
            continue
        why = reason(name, a, b)
        unexplained += why is None
        print(f"  {name}: cutrace {a}, CUPTI {b}: {why or 'NOT EXPLAINED'}")
    print(f"  {equal} functions equal, {sum(ours.values())} calls in the trace, "
          f"{sum(theirs.values())} by CUPTI, lost {sorted(lost)}, {unexplained} not explained")
    return unexplained > 0


sys.exit(main())
