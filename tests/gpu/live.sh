#!/bin/bash
# Windows, flight recorder and budget on a real GPU:
#
#   tests/gpu/live.sh [CUTRACE]
#
# A PyTorch loop whose steps 100..110 are recorded (the counts are those of a full trace's steps), the budget on a loop of
# launches and questions, a snapshot when the program is killed by SIGKILL. A line 'PASS' or 'FAILED' for each; a few minutes.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cutrace=${1:-${CUTRACE:-$here/../../target/release/cutrace}}
cutrace=$(realpath "$cutrace")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
failed=0
pass() { echo "PASS: $*"; }
fail() { failed=$((failed + 1)); echo "FAILED: $*"; }

cat >train.py <<'PY'
import sys, time, torch
torch.manual_seed(0)
steps, pause = int(sys.argv[1]), float(sys.argv[2])
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(64, 256, device="cuda")
times = []
for step in range(steps):
    torch.cuda.nvtx.range_push("step")
    began = time.monotonic_ns()
    loss = model(data).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    value = loss.item()
    times.append(time.monotonic_ns() - began)
    torch.cuda.nvtx.range_pop()
    if pause: time.sleep(pause)
print("loss %.6f" % value)
times = sorted(times[50:])
print("median_us %.1f" % (times[len(times) // 2] / 1e3), file=sys.stderr)
PY
counts() { # TRACE [FROM UNTIL]: launches, copies and GPU operations, of the steps from FROM up to UNTIL by NVTX ranges
    "$cutrace" cat "$1" | python3 -c '
import json, sys
begin = end = None
lines = [json.loads(line) for line in sys.stdin]
if len(sys.argv) > 2:
    steps = [line["ts"] for line in lines if line["type"] == "range" and line["name"] == "step" and line["phase"] == "B"]
    begin, end = steps[int(sys.argv[1])], steps[int(sys.argv[2])]
calls = {l["op_id"]: l["ts"] for l in lines if l["type"] == "userspace" and l["phase"] == "B"}
inside = lambda op: op in calls and (begin is None or begin <= calls[op] < end)
kernels = {}
for line in lines:
    if line["type"] == "kernel" and line["op"] == "launch" and inside(line["op_id"]):
        kernels[line["kernel"]] = kernels.get(line["kernel"], 0) + 1
work = sum(1 for l in lines if l["type"] == "gpu" and l.get("phase") == "E" and inside(l.get("correlation")))
copies = sum(1 for l in lines if l["type"] == "transfer" and inside(l["op_id"]))
print("launches", sum(kernels.values()), "kernels", len(kernels), "copies", copies, "gpu", work)
for name in sorted(kernels): print(kernels[name], name)
' "${@:2}"
}

echo "== windows"
"$cutrace" -o full.arrows python3 train.py 140 0 >full.out 2>full.err || fail "the full run"
"$cutrace" -o steps.arrows --window 100..110 python3 train.py 140 0 >steps.out 2>steps.err || fail "the window of steps"
"$cutrace" -o ranges.arrows --window 100..110,range=step python3 train.py 140 0 >ranges.out 2>ranges.err || fail "the window of ranges"
counts full.arrows 100 110 >full.counts
counts steps.arrows >steps.counts
counts ranges.arrows >ranges.counts
head -n 1 full.counts steps.counts ranges.counts
cmp -s full.counts ranges.counts && pass "ranges 100..110: as many of each kernel as in a full trace" || { fail "ranges 100..110"; diff full.counts ranges.counts | head; }
# A step begins at its first kernel in place of the range: what is before it belongs to the step before.
cmp -s full.counts steps.counts && pass "steps 100..110: as many of each kernel as in a full trace" || { fail "steps 100..110"; diff full.counts steps.counts | head; grep Note steps.err; }
cmp -s full.out steps.out && pass "same loss" || fail "the loss differs"
grep -h 'Events lost\|not watched' steps.err

echo "== hooks outside of a window: steps far away, medians in us of three rounds each"
for round in 1 2 3; do
    python3 train.py 1500 0 2>&1 >/dev/null | sed 's/^/plain   /'
    "$cutrace" -q -o far.arrows --window 1000000..1000001 --method=preload python3 train.py 1500 0 2>&1 >/dev/null | grep median | sed 's/^/waiting /'
    "$cutrace" -q -o far.arrows --window profiler --method=preload python3 train.py 1500 0 2>&1 >/dev/null | grep median | sed 's/^/closed  /'
    "$cutrace" -q -o far.arrows --method=preload python3 train.py 1500 0 2>&1 >/dev/null | grep median | sed 's/^/traced  /'
done

echo "== flight: kill -9 of the program"
"$cutrace" -o flight.arrows --flight 2s python3 -c '
import os, signal, runpy, sys
sys.argv = ["train.py", "1500", "0.001"]
runpy.run_path("train.py")
os.kill(os.getpid(), signal.SIGKILL)' >flight.out 2>flight.err
if [ -s flight-signal-9.arrows ]; then
    launches=$(counts flight-signal-9.arrows | awk 'NR == 1 { print $2 }')
    # Two seconds of steps of about 4 ms with 53 launches each.
    if [ "$launches" -gt 1000 ]; then pass "kill -9 left $launches launches in $(stat -c %s flight-signal-9.arrows) bytes"
    else fail "the snapshot after kill -9 has $launches launches"; fi
else
    fail "no snapshot after kill -9"; tail -n 5 flight.err
fi
echo "== flight: kill -9 of cutrace"
"$cutrace" -o killed.arrows --flight 5s python3 train.py 4000 0.001 >killed.out 2>killed.err &
recorder=$!
sleep 15
kill -9 $recorder
wait $recorder 2>/dev/null
recovered=$("$cutrace" snap --recover killed.flight) && pass "recovered $recovered: $(counts "$recovered" | head -n 1)" || fail "nothing to recover"
sleep 3

echo "== budget on a loop of launches and questions"
cat >loop.cu <<'CU'
#include <cstdio>
#include <cstdlib>
#include <ctime>
__global__ void nothing() {}
static double now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(int, char **words) {
    int questions = atoi(words[1]), device;
    cudaFree(0);
    for (int i = 0; i < 20000; i++) nothing<<<1, 1>>>();
    cudaDeviceSynchronize();
    double began = now();
    for (int i = 0; i < 400000; i++) {
        nothing<<<1, 1>>>();
        for (int k = 0; k < questions; k++) cudaRuntimeGetVersion(&device);
        if (i % 64 == 0) cudaDeviceSynchronize();
    }
    cudaDeviceSynchronize();
    printf("ns_per_round %.1f\n", (now() - began) / 400000 * 1e9);
}
CU
if nvcc -O2 -cudart shared -o loop loop.cu 2>nvcc.err; then
    for questions in 0 20; do
        for round in 1 2 3; do
            echo "questions $questions plain    $(./loop $questions)"
            echo "questions $questions traced   $("$cutrace" -q -o b.arrows --method=preload ./loop $questions)"
            echo "questions $questions budgeted $("$cutrace" -o b.arrows --budget 2% ./loop $questions 2>b.err; grep -o 'Shed:.*' b.err)"
        done
    done | tee budget.txt
    python3 - <<'PY'
import re
least = {}
for line in open("budget.txt"):
    found = re.match(r"questions (\d+) (\w+) +ns_per_round ([\d.]+)", line)
    if found:
        key = (found[1], found[2])
        least[key] = min(least.get(key, 1e9), float(found[3]))
for questions in ("0", "20"):
    plain = least[(questions, "plain")]
    for kind in ("traced", "budgeted"):
        print("questions %s: %s costs %+.2f %% by the least of three" % (questions, kind, 100 * (least[(questions, kind)] / plain - 1)))
PY
    grep -q Shed budget.txt && pass "what was shed is said" || fail "nothing is said of what was shed"
else
    fail "nvcc: $(head -n 1 nvcc.err)"
fi
echo "$failed failed"
exit $((failed > 0))
