"""once.py TRACE: calls, kernel launches, kernels on the GPU, and calls that lie directly in one of the same name."""
import json
import sys

calls = launches = kernels = twice = 0
open_calls = {}
for line in open(sys.argv[1]):
    event = json.loads(line)
    kind, phase = event.get("type"), event.get("phase")
    if kind == "userspace" and phase == "B" and event.get("layer") in ("driver", "runtime"):
        calls += 1
        stack = open_calls.setdefault((event["pid"], event["tid"]), [])
        twice += bool(stack) and stack[-1][1] == event["name"] and event["depth"] > 0
        stack.append((event["op_id"], event["name"]))
    elif kind == "userspace" and phase == "E":
        stack = open_calls.get((event["pid"], event["tid"]), [])
        while stack and stack[-1][0] != event["op_id"] and any(one[0] == event["op_id"] for one in stack):
            stack.pop()
        if stack and stack[-1][0] == event["op_id"]:
            stack.pop()
    elif kind == "kernel" and event.get("op") == "launch":
        launches += 1
    elif kind == "gpu" and phase == "B" and event.get("category") == "kernel":
        kernels += 1
print(calls, launches, kernels, twice)
