"""Compares CUPTI's word on waits with the calls that waited: check_gpu_waits.py TRACE

Each wait has its call, lies inside it, and says the same stream; each call that waits has one. Prints a
line for each thing compared and exits with 1 if one is wrong.
"""
import json
import sys
from collections import Counter

from gpu_trace import finish, say

KINDS = {
    "wait for event": "EventSynchronize",
    "stream waits for event": "StreamWaitEvent",
    "wait for stream": "StreamSynchronize",
    "wait for context": ("CtxSynchronize", "DeviceSynchronize"),
}
waits, calls, begun, summary = [], {}, {}, {}
for line in open(sys.argv[1]):
    record = json.loads(line)
    kind = record.get("type")
    if kind == "summary":
        summary = record
    elif record.get("phase") == "B" and kind in ("gpu_wait", "userspace"):
        begun[record["op_id"]] = record
    elif record.get("phase") == "E" and kind == "gpu_wait":
        waits.append((begun[record["op_id"]], record))
    elif record.get("phase") == "E" and kind == "userspace":
        calls[record["op_id"]] = (begun.get(record["op_id"], record), record)
error = max([c["error_ns"] for c in summary.get("clocks", []) if c["source"] == "cupti"], default=0) / 1e6
print(f"       {len(waits)} waits; clock error stated {error * 1e6:.0f} ns")
linked = [(wait, calls[wait[0]["correlation"]]) for wait in waits if wait[0].get("correlation") in calls]
say(len(linked) == len(waits), f"waits with their calls: {len(linked)} of {len(waits)}")
for (name, call), count in sorted(Counter((w[0]["name"], c[0]["name"]) for w, c in linked).items()):
    say(any(part in call for part in (KINDS[name] if isinstance(KINDS[name], tuple) else (KINDS[name],))), f"{count:7} {name} by {call}")
outside = [w for w, c in linked if w[0]["ts"] < c[0]["ts"] - error or w[1]["ts"] > c[1]["ts"] + error]
say(not outside, f"each is inside its call ({len(outside)} do not)")
streams = [w for w, c in linked if w[0]["name"] == "wait for stream" and w[0].get("stream") != c[0].get("stream")]
say(not streams, f"each says the call's stream ({len(streams)} do not)")
wanted = [c for c, _ in calls.values() if c["layer"] == "driver" and c["name"].startswith(("cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize"))]
told = {w[0].get("correlation") for w, _ in linked}
missing = [c for c in wanted if c["op_id"] not in told]
say(not missing, f"each call that waits is recorded: {len(wanted) - len(missing)} of {len(wanted)}")
finish()
