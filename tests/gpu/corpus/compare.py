"""GPU work as torch.profiler and as cutrace measured it: compare.py CUTRACE FOLDER NAME…

FOLDER has of each program some runs under torch.profiler (NAME.N.profile.json: the steps after the fifth) and as many under cutrace
(NAME.N.arrows, with what the program printed in NAME.N.txt). Clocks of GPUs move, so medians and leasts over the runs are compared, and
how far the runs of one tool are apart is printed beside; the step time is compared with what the program's own clock said
in the same run. Prints a line a figure, and ends with 1 if one is off by more than 1 %.
"""
import glob
import json
import statistics
import subprocess
import sys

cutrace, folder, names = sys.argv[1], sys.argv[2], sys.argv[3:]
WORK = {"kernel", "gpu_memcpy", "gpu_memset"}
wrong = 0


def union(spans):
    total, until = 0.0, 0.0
    for start, length in sorted(spans):
        total += max(0.0, start + length - max(start, until))
        until = max(until, start + length)
    return total


def line(name, what, theirs, ours, unit, spread=""):
    global wrong
    off = ours / theirs - 1 if theirs else 0
    wrong += abs(off) > 0.01
    print(f"{name:10} {what:28} {theirs:14.3f} {ours:14.3f} {unit:4} {off:+7.2%}  {spread}")


print(f"{'program':10} {'figure':28} {'other':>14} {'cutrace':>14}")


def profiled(name, number):
    events = json.load(open(f"{folder}/{name}.{number}.profile.json"))["traceEvents"]
    return [(event["ts"], event["dur"]) for event in events if event.get("cat") in WORK]


def traced(name, number, operations):
    work = []
    lines = subprocess.Popen([cutrace, "cat", f"{folder}/{name}.{number}.arrows"], stdout=subprocess.PIPE, text=True)
    for text in lines.stdout:
        if '"type":"gpu"' in text and '"phase":"E"' in text:
            event = json.loads(text)
            work.append((event["ts"] * 1e3 - event["duration_us"], event["duration_us"]))
    # The profiled steps are the last ones.
    return sorted(work)[-operations:]


for name in names:
    rounds = range(1, 1 + len(glob.glob(f"{folder}/{name}.*.profile.json")))
    theirs = [profiled(name, number) for number in rounds]
    ours = [traced(name, number, len(theirs[0])) for number in rounds]
    line(name, "GPU operations", len(theirs[0]), len(ours[0]), "")
    for what, measure in (("sum of GPU work", lambda work: sum(length for _, length in work)), ("GPU busy (union)", union)):
        other, own = [sorted(map(measure, runs)) for runs in (theirs, ours)]
        spread = f"(runs differ by {other[-1] / other[0] - 1:.1%}, {own[-1] / own[0] - 1:.1%})"
        line(name, f"{what}, median", statistics.median(other), statistics.median(own), "us", spread)
        line(name, f"{what}, least", other[0], own[0], "us")
    for number in rounds:
        report = json.loads(subprocess.run([cutrace, "report", "--json", f"{folder}/{name}.{number}.arrows"], capture_output=True).stdout)
        said = [text for text in open(f"{folder}/{name}.{number}.txt") if text.startswith("step ")]
        words = said[0].split()
        line(name, f"step, median, own clock ({number})", float(words[1]), report["working"]["step"]["p50_ns"] / 1e6, "ms")
        # cutrace's steps begin at a launch, not where the program's clock is read: single ones differ, their mean does not.
        line(name, f"step, mean, own clock ({number})", float(words[4]), report["working"]["step"]["mean_ns"] / 1e6, "ms")
sys.exit(wrong > 0)
