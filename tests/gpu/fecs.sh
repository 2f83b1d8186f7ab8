#!/bin/sh
# Context switches of the GPU: two programs at once, each told by the process it is of.
# usage: fecs.sh CUTRACE FOLDER   (FOLDER: where uvm lies, built from tests/gpu/uvm.cu)
# Needs: python3, a CUDA driver and runtime. Traces go to ${OUT:-docs-out}.
set -eu
cutrace=$1 folder=$2
out=${OUT:-docs-out}
mkdir -p "$out"
"$cutrace" record -v --no-summary --method preload,fecs -o "$out/fecs.jsonl" \
    sh -c "'$folder/uvm' 256 & '$folder/uvm' 256; wait"
python3 - "$out/fecs.jsonl" <<'P'
import collections, json, sys
trace = [json.loads(line) for line in open(sys.argv[1])]
spans = [line for line in trace if line["type"] == "gpu_context" and line.get("phase") == "E"]
calls = {line["pid"] for line in trace if line["type"] == "userspace"}
had = collections.defaultdict(list)
for line in spans:
    had[line["pid"]].append(line["duration_us"])
for pid, times in sorted(had.items()):
    print(f"pid {pid}{' (traced)' if pid in calls else ''}: {len(times)} times, {sum(times) / 1e3:.2f} ms in all, longest {max(times) / 1e3:.2f} ms")
print("clocks:", trace[-1]["clocks"], "lost:", trace[-1]["lost"])
work = [line for line in trace if line["type"] == "kernel" and line.get("op") == "launch"]
for line in work:
    mine = [s for s in spans if s["pid"] == line["pid"]]
    if not mine or line["ts"] > max(s["ts"] for s in mine):
        sys.exit("FAIL: a launch after the last time that its process had the GPU")
if len(calls & set(had)) != 2:
    sys.exit(f"FAIL: not both programs had the GPU: {sorted(calls)} and {sorted(had)}")
print("ok")
P
