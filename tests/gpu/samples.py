"""Runs CUDA programs that somebody has built, plainly and under cutrace: samples.py CUTRACE PROGRAMS FOLDER

PROGRAMS holds executables, NAME.exe each. Each is run twice in the folder PROGRAMS and must end alike: the same exit status, and the
same words with numbers left out. Prints one line a program that differs or of which a finding above low is reported, then every
error that a call returned, with the reason if it is one that is expected (crates/analyse/src/findings/expected.rs).
Everything said at the end of each run is in FOLDER/NAME.txt. PARALLEL programs run at once (4).
"""
import collections
import concurrent.futures
import glob
import json
import os
import re
import subprocess
import sys

cutrace, programs, folder = map(os.path.realpath, sys.argv[1:4])
os.makedirs(folder, exist_ok=True)


def run(command, place):
    try:
        done = subprocess.run(command, cwd=place, capture_output=True, timeout=40, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    except subprocess.TimeoutExpired:
        return "timeout", "", ""


def words(text):
    # What a run prints of times, rates, addresses and processes differs from run to run.
    return re.sub(r"[-+]?(0x[0-9a-f]+|[0-9][0-9.,e+-]*)|\b(inf|nan)\b", "#", text)


def look(name):
    plain = run([f"{programs}/{name}.exe"], programs)
    if plain[0] == "timeout":
        return name, "too long", [], []
    traced = run([cutrace, "record", "-o", f"{folder}/{name}.arrows", "--", f"{programs}/{name}.exe"], programs)
    open(f"{folder}/{name}.txt", "w").write(traced[2])
    how = "same"
    if plain[0] != traced[0]:
        how = f"exit {plain[0]}, traced {traced[0]}"
    elif sorted(words(plain[1]).split()) != sorted(words(traced[1]).split()):
        how = "other words"
    said = run([cutrace, "report", "--json", f"{folder}/{name}.arrows"], programs)[1]
    try:
        report = json.loads(said)
    except ValueError:
        return name, f"{how}, no report", [], []
    if report["summary"]["lost"]:
        how += f", {report['summary']['lost']} lost"
    return name, how, report["failures"], [finding for finding in report["findings"] if finding["severity"] in ("high", "medium")]


names = sorted(os.path.basename(path)[:-4] for path in glob.glob(f"{programs}/*.exe"))
with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("PARALLEL", 4))) as pool:
    results = list(pool.map(look, names))
print(f"{len(names)} programs")
print(collections.Counter(how for _, how, _, _ in results).most_common())
errors = collections.defaultdict(list)
for name, how, failures, findings in results:
    if how != "same":
        print(f"{name}: {how}")
    for finding in findings:
        print(f"  {finding['severity']:6} {name}: {finding['title']}")
    for failure in failures:
        errors[failure["function"], failure["code"], failure["error"], failure["expected"]].append(name)
print("errors that calls returned:")
for (function, code, error, expected), names in sorted(errors.items(), key=lambda item: (item[0][3] is not None, item[0][0])):
    print(f"  {function} {code} {error}: {expected or 'NOT EXPECTED'} ({len(names)}: {' '.join(names[:6])})")
sys.exit(any("traced" in how or "lost" in how or "no report" in how for _, how, _, _ in results))
