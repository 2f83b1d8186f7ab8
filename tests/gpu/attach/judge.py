"""What attaching did to a training run: judge.py LOG PLAIN-LOG WINDOWS TRACE PROFILED

WINDOWS has lines `NAME BEGIN END` (CLOCK_MONOTONIC): when cutrace was attached, and in what way. Prints step times before,
while and after, and verdicts: the same losses, the same kernels for each step as torch.profiler counts.
"""
import json
import statistics
import sys


def steps(path):
    rows = [line.split() for line in open(path)]
    return [(int(n), int(a), int(b), loss) for n, a, b, loss in rows]


def time_of(rows):
    return statistics.median((end - begin) / 1000 for _, begin, end, _ in rows) if rows else float("nan")


run, plain = steps(sys.argv[1]), steps(sys.argv[2])
windows = [(name, int(a), int(b)) for name, a, b in (line.split() for line in open(sys.argv[3]))]
wrong = 0

first = min(a for _, a, _ in windows)
before = time_of([row for row in run if row[2] < first and row[0] > 50])
# Behind the last window come the cycles; nobody has been attached for the last three seconds.
after = time_of([row for row in run if row[1] > run[-1][2] - 3e9])
print(f"before: {before:.0f} us a step; after everything: {after:.0f} us ({after / before:.2f} x)")
quarter = len(plain) // 4
drift = [time_of(plain[50:quarter]), time_of(plain[-quarter:])]
print(f"for comparison, nobody ever attached: {drift[0]:.0f} us a step at first, {drift[1]:.0f} us at the end")
for name, begin, end in windows:
    # The edges are for attaching and for letting go.
    inside = [row for row in run if row[1] > begin and row[2] < end]
    took = time_of(inside)
    pauses = sorted(((b - a) / 1e6 for _, a, b, _ in run if b > begin - 3e9 and a < end + 3e9), reverse=True)[:3]
    print(f"{name}: {took:.0f} us a step ({took / before:.2f} x), {len(inside)} steps; longest steps around: "
          + ", ".join(f"{pause:.0f} ms" for pause in pauses))

same = {n: loss for n, _, _, loss in plain}
different = [n for n, _, _, loss in run if n in same and same[n] != loss]
compared = sum(n in same for n, _, _, _ in run)
print(f"losses: {compared} steps compared, {len(different)} different: {'ok' if not different and compared else 'WRONG'}")
wrong += bool(different) or not compared

meta, work = {}, []
for line in open(sys.argv[4]):
    record = json.loads(line)
    if record.get("type") == "meta":
        meta = record
    elif record.get("type") == "gpu" and record.get("phase") == "E":
        work.append(meta["start_ns"] + record["ts"] * 1e6)
work.sort()
profiled = next(float(line.split()[1]) for line in open(sys.argv[5]) if line.startswith("profiler"))
if work:
    inside = [row for row in run if row[1] > work[0] and row[2] < work[-1]][1:-1]
    in_steps = sum(inside[0][1] <= end <= inside[-1][2] for end in work) if inside else 0
    each = in_steps / max(len(inside), 1)
    fits = abs(each - profiled) < 0.01
    print(f"kernels, copies and memsets a step: {each:.2f} in {len(inside)} steps; torch.profiler: {profiled:.2f}: "
          + ("ok" if fits else "WRONG"))
    wrong += not fits
else:
    print("no GPU times in the trace: WRONG")
    wrong += 1
sys.exit(wrong > 0)
