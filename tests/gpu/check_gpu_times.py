"""Compares a trace with what tests/gpu/gpu_times printed: check_gpu_times.py TRACE OUTPUT

Prints a line for each thing compared and exits with 1 if one is wrong.
"""
import sys
from collections import Counter

from gpu_trace import Trace, finish, numbers_of, say

trace = Trace(sys.argv[1])
work, calls, start, end, named = trace.work, trace.calls, trace.start, trace.end, trace.named
error = max(trace.clock_errors("cupti"), default=0)
of = numbers_of(sys.argv[2])

linked = [w for w in work if w.get("correlation") in calls]
print(f"       {len(work)} pieces of work, {len(linked)} with their calls; clock error stated {error} ns")
early = [w for w in linked if start(w) < start(calls[w["correlation"]]) - error]
say(not early, f"no work begins before the call that caused it ({len(early)} do)")
names = Counter((calls[w["correlation"]]["name"], w["name"].split("(")[0]) for w in linked)
for (call, name), count in sorted(names.items(), key=lambda item: -item[1])[:12]:
    print(f"       {count:7} {name} by {call}")

if of("spin"):
    # The first of these kernels warms up and is not told.
    found = named("spin_for")[1 : 1 + len(of("spin"))]
    worst = 0
    for (took,), record in zip(of("spin"), found):
        off = record["duration_us"] * 1e3 - took
        ok = abs(off) <= max(took * 0.01, 2000)
        worst = max(worst, abs(off))
        if not ok:
            say(False, f"a kernel of {took} ns took {record['duration_us']} us by the trace")
    say(len(found) == len(of("spin")), f"spin kernels: {len(found)}, durations off by {worst:.0f} ns at most")
if of("blocked"):
    spins, quicks = named("spin_for")[-5:], [w for w in named("quick") if not w.get("details", {}).get("graph")]
    quicks = [w for w in quicks if any(abs(start(calls[w["correlation"]]) - l) < 2000000 for l, _ in of("blocked") if w.get("correlation") in calls)][:5]
    for (launched, length), blocker, record in zip(of("blocked"), spins, quicks):
        delay = start(record) - start(calls[record["correlation"]])
        truth = end(blocker) - launched
        say(abs(delay - truth) < 0.01 * truth + 20000, f"queue delay {delay / 1e6:.3f} ms behind a kernel of {length / 1e6:.0f} ms (host says {truth / 1e6:.3f})")
        say(start(record) >= end(blocker) - 1000, "it begins when the one before has ended")
if of("handshake"):
    found = named("greet")
    ok = len(found) == len(of("handshake"))
    say(ok, f"handshakes: {len(found)} of {len(of('handshake'))}")
    before, late, ends_early, ends_late = [], [], [], []
    for (launched, seen, told, acknowledged), record in zip(of("handshake"), found):
        before.append(start(record) - launched)
        late.append(seen - start(record))
        ends_early.append(end(record) - told)
        ends_late.append(end(record) - acknowledged)
    print(f"       begins {min(before)} … {max(before)} ns after launch, {min(late)} … {max(late)} ns before the host saw it")
    print(f"       ends {min(ends_early)} … {max(ends_early)} ns after the host's word, {min(ends_late)} … {max(ends_late)} ns after its answer")
    say(min(before) >= -error, f"none begins before its launch (earliest {min(before)} ns)")
    say(min(late) >= -error, f"none begins after the host saw it begun (latest {-min(late)} ns)")
    say(min(ends_early) >= -error, f"none ends before the host let it (earliest {min(ends_early)} ns)")
for word in ("many", "graph"):
    for kernels, copies, memsets in of(word):
        inside = word == "graph"
        mine = [w for w in work if bool(w.get("details", {}).get("graph")) == inside]
        count = lambda test: sum(1 for w in mine if test(w["name"]))
        got = count(lambda n: n.startswith("quick")), count(lambda n: n.startswith("memcpy")), count(lambda n: n == "memset")
        extra = len(of("blocked")) if word == "many" else 0
        say(got == (kernels + extra, copies, memsets), f"{word}: {got[0]} kernels, {got[1]} copies, {got[2]} memsets; there were {kernels + extra}, {copies}, {memsets}")
        unlinked = [w for w in mine if w.get("correlation") not in calls]
        say(not unlinked, f"{word}: each has its call ({len(unlinked)} have not)")
        ids = Counter(w.get("correlation") for w in mine if w["name"].startswith("quick"))
        per = 8 if inside else 1
        say(all(n == per for n in ids.values()), f"{word}: {per} kernel(s) a launch call, {len(ids)} calls")
finish()
