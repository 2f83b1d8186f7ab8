"""GPU times by events beside what tests/gpu/gpu_times printed: check_gpu_events.py TRACE OUTPUT

Every time must be right within the error that its event states. Exits with 1 if one is not.
"""
import sys

from gpu_trace import Trace, finish, numbers_of, say

trace = Trace(sys.argv[1])
work, calls, start, end, named = trace.work, trace.calls, trace.start, trace.end, trace.named
clock = trace.clock_errors("events")
of = numbers_of(sys.argv[2])
stated = lambda record: record["details"]["error_ns"]

print(f"       {len(work)} pieces of work; the clock's error as stated {clock} ns")
say(all(w["details"].get("source") == "events" for w in work), "each says that it was timed by events")
unlinked = [w for w in work if w.get("correlation") not in calls]
say(not unlinked, f"each has its call ({len(unlinked)} have not)")
early = [w for w in work if w.get("correlation") in calls and start(w) < start(calls[w["correlation"]]) - clock[0]]
say(not early, f"none begins before its call ({len(early)} do)")
if of("spin"):
    found = named("spin_for")[1:]
    say(len(found) == len(of("spin")), f"spin kernels: {len(found)} of {len(of('spin'))}")
    rows = [(took, w["duration_us"] * 1e3 - took, stated(w)) for (took,), w in zip(of("spin"), found)]
    for took, off, error in rows:
        if abs(off) > error:
            say(False, f"a kernel of {took} ns is off by {off:.0f} ns, stated {error}")
    offs, errors = [off for _, off, _ in rows], [error for _, _, error in rows]
    print(f"       durations off by {min(offs):.0f} … {max(offs):.0f} ns; errors stated {min(errors)} … {max(errors)} ns")
if of("handshake"):
    found = named("greet")
    say(len(found) == len(of("handshake")), f"handshakes: {len(found)} of {len(of('handshake'))}")
    late, let, answered = [], [], []
    wrong = 0
    for (launched, seen, told, acknowledged), w in zip(of("handshake"), found):
        late.append(start(w) - seen)
        let.append(end(w) - told)
        answered.append(end(w) - acknowledged)
        wrong += start(w) - seen > stated(w) or told - end(w) > stated(w) or launched - start(w) > stated(w)
    print(f"       begins {-max(late)} … {-min(late)} ns before the host saw it, ends {min(let)} … {max(let)} ns after its word, {min(answered)} … {max(answered)} ns after its answer")
    say(wrong == 0, f"all within the stated errors ({wrong} are not)")
for kernels, copies, memsets in of("many"):
    count = lambda test: sum(1 for w in work if test(w["name"]))
    got = count(lambda n: n.startswith("quick")), count(lambda n: n.startswith("memcpy")), count(lambda n: n == "memset")
    sampled = max((w["details"].get("every", 1) for w in work), default=1)
    print(f"       timed {got[0]} of {kernels} kernels, {got[1]} of {copies} copies, {got[2]} of {memsets} memsets; at most one of {sampled} was left")
    say(0 < got[0] <= kernels and got[1] <= copies and got[2] <= memsets, "no more than there were")
for _ in of("graph"):
    graphs = [w for w in work if w["name"] == "graph"]
    say(len(graphs) == 100, f"{len(graphs)} graph launches of 100")
finish()
