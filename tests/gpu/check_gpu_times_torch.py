"""Sums of kernel times: check_gpu_times_torch.py TRACE TRAINED PROFILED

Both programs ran the same steps five times; the least sums are compared, for clocks of GPUs move.
"""
import json
import sys

meta, work = {}, []
for line in open(sys.argv[1]):
    record = json.loads(line)
    if record.get("type") == "meta":
        meta = record
    elif record.get("type") == "gpu" and record.get("phase") == "E":
        work.append((meta["start_ns"] + record["ts"] * 1e6, record["duration_us"]))
sums = []
for line in open(sys.argv[2]):
    word, began, ended = line.split()
    inside = [took for end, took in work if int(began) <= end <= int(ended)]
    sums.append((sum(inside), len(inside)))
profiled = [(float(line.split()[2]), int(line.split()[1])) for line in open(sys.argv[3]) if line.startswith("profiler")]
ours, theirs = min(sums), min(profiled)
off = ours[0] / theirs[0] - 1
print(f"cutrace:        {[f'{s:.1f} us of {n}' for s, n in sums]}")
print(f"torch.profiler: {[f'{s:.1f} us of {n}' for s, n in profiled]}")
print(f"least: {ours[0]:.1f} and {theirs[0]:.1f} us, {off:+.2%}; {ours[1]} and {theirs[1]} pieces of work")
sys.exit(abs(off) > 0.01 or ours[1] != theirs[1])
