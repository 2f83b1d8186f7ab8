"""Runs each command some rounds, interleaved, and prints the least of each; see `run`."""
import os
import subprocess
import sys
import time

cutrace, folder, events, others, rounds = sys.argv[1:]
events, others, rounds = int(events), int(others), int(rounds)
here = os.path.dirname(os.path.abspath(__file__))
jsonl, arrows, short = (os.path.join(folder, name) for name in ("long.jsonl", "long.arrows", "short.jsonl"))


def out(name):
    return os.path.join(folder, name)


commands = [
    ("report summary, Arrow", events, [cutrace, "report", "summary", arrows]),
    ("report summary, JSONL", events, [cutrace, "report", "summary", jsonl]),
    ("timeline, Arrow", events, [cutrace, "timeline", arrows]),
    ("replay, Arrow", events, [cutrace, "replay", arrows]),
    ("export chrome, Arrow", events, [cutrace, "export", "-o", out("o.json"), arrows]),
    ("export perfetto, Arrow", events, [cutrace, "export", "-o", out("o.pftrace"), arrows]),
    ("export html, Arrow", events, [cutrace, "export", "-o", out("o.html"), arrows]),
    ("export parquet, Arrow", events, [cutrace, "export", "-o", out("o.parquet"), arrows]),
    ("export csv, Arrow", events, [cutrace, "export", "-o", out("o.csv"), arrows]),
    ("jq, JSONL", others, ["jq", "-n", "-f", os.path.join(here, "summary.jq"), short]),
    ("Python, JSONL", others, [sys.executable, os.path.join(here, "summary.py"), short]),
]
only = os.environ.get("ONLY", "")


def run(command):
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - begin
    if status != 0:
        sys.exit(f"{' '.join(command)} failed: {errors.decode()}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


best = {}
for _ in range(rounds):
    for name, count, command in commands:
        if only not in name:
            continue
        measured = run(command)
        best[name] = min(best.get(name, measured), measured)
        for made in ("o.json", "o.pftrace", "o.html", "o.parquet", "o.csv"):
            if os.path.exists(out(made)):
                os.remove(out(made))

print(f"{events:,} events; jq and Python {others:,}; least of {rounds} round(s)")
for path in (jsonl, arrows):
    print(f"{os.path.basename(path)}: {os.path.getsize(path):,} bytes")
print(f"{'':26} {'wall s':>8} {'cpu s':>8} {'peak MiB':>9} {'ns/event':>9}  Python / this")
python = best.get("Python, JSONL")
for name, count, _ in commands:
    if name not in best:
        continue
    wall, cpu, memory = best[name]
    each = wall / count * 1e9
    ratio = f"{python[0] / others * 1e9 / each:.1f}x" if python else ""
    print(f"{name:26} {wall:8.2f} {cpu:8.2f} {memory / 2**20:9.0f} {each:9.0f}  {ratio}")
