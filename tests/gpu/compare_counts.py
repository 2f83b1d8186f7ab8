"""Compares cutrace's count of every call with CUPTI's, for the same program.

    compare_counts.py TRACE.jsonl COUNTS [--hidden-runtimes]

COUNTS is what cupti.so wrote. CUPTI is loaded by the first cuInit: driver calls that began before that
had returned are left out of cutrace's counts (the runtime call around it CUPTI does report). Prints one line for each name whose counts still differ,
with the reason where there is one, and a last line with the totals. Exits 1 if a difference has no
reason. With --hidden-runtimes, libraries have runtimes linked in without symbols.
"""
import collections
import json
import re
import sys

# Names that may differ, and why.
REASONS = [
    (r"__cuda", "no callback: the compiler's own entry points"),
    (r"cuGetExportTable$", "no callback"),
    (r"cuKernelGetName$", "CUPTI asks for the name at each launch, and counts itself"),
    (r"(cuLibraryUnload|cuDevicePrimaryCtxRelease)", "at exit, when CUPTI has stopped"),
]
HIDDEN = "a runtime linked in without symbols: its cuda* calls have no entry to hook"


def family(name):
    """CUPTI names the version that a function appeared in, and both name streams' defaults."""
    name = re.sub(r"_v\d{4,5}$", "", name)
    return re.sub(r"_(ptsz|ptds)$", "", name)


def traced(path):
    counts, early, lost, initialised = collections.Counter(), 0, None, {}
    with open(path) as lines:
        for line in lines:
            event = json.loads(line)
            if event["type"] == "summary":
                lost = event["lost"]
            if event["type"] != "userspace" or event["layer"] not in ("driver", "runtime"):
                continue
            pid = event["pid"]
            if event["phase"] == "B":
                if initialised.get(pid) or event["layer"] == "runtime":
                    counts[family(event["name"])] += 1
                else:
                    early += 1
            elif event["name"] == "cuInit":
                initialised[pid] = True
    return counts, early, lost


def reported(path):
    counts = collections.Counter()
    with open(path) as lines:
        for line in lines:
            domain, name, count = line.split()
            if domain in ("driver", "runtime"):
                counts[family(name)] += int(count)
    return counts


def reason(name, ours, theirs):
    for pattern, why in REASONS:
        if re.match(pattern, name):
            return why
    if name.startswith("cuda") and ours < theirs and "--hidden-runtimes" in sys.argv:
        return HIDDEN
    return None


def main():
    ours, early, lost = traced(sys.argv[1])
    theirs = reported(sys.argv[2])
    equal = unexplained = 0
    for name in sorted(set(ours) | set(theirs)):
        a, b = ours[name], theirs[name]
        if a == b:
            equal += a
            continue
        why = reason(name, a, b)
        unexplained += why is None
        print(f"  {name}: cutrace {a}, CUPTI {b}: {why or 'NOT EXPLAINED'}")
    same = sum(ours[name] == theirs[name] for name in ours)
    print(f"  {same} functions with {equal} calls equal; {early} calls before CUPTI was there; "
          f"{lost} lost; {unexplained} differences not explained")
    return unexplained > 0


sys.exit(main())
