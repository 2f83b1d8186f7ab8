#!/bin/bash
# Attaching to a PyTorch training script on a real GPU, as an ordinary user: step times before, while and after, losses,
# kernel counts, and many cycles.
#
#   tests/gpu/attach.sh [CUTRACE] [CYCLES]      needs python3 with torch, and root to become another user; done within 400 s
#
# KEEP=DIR keeps what is known of a crash there. Ends with 1 if the script was harmed: other losses, another exit status, other kernel counts, a cycle that failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cutrace=$(realpath "${1:-${CUTRACE:-$here/../../target/release/cutrace}}")
cycles=${2:-50}
work=$(mktemp -d /var/tmp/attach.XXXXXX)
chmod 777 "$work"
cp "$cutrace" "$work/cutrace" && chmod 755 "$work/cutrace"
cp "$here"/attach/*.py "$work/"
cc -O1 -w -shared -fPIC -o "$work/crash.so" "$here/attach/crash.c" || touch "$work/crash.so"
cd "$work" || exit 1
trap 'kill $train 2>/dev/null; cd /; rm -rf "$work"' EXIT
wrong=0
part() { printf '\n=== %s (%s s)\n' "$*" "$SECONDS"; }
# As nobody where that is possible, with a folder to unpack libraries into.
user() {
    if [ "$(id -u)" = 0 ] && setpriv --reuid=65534 --regid=65534 --clear-groups python3 -c 'import torch; torch.zeros(1).cuda()' 2>/dev/null; then
        echo "setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=$work XDG_CACHE_HOME=$work"
    else
        echo "env"
    fi
}
train=
as=$(user)
part "as: $as"
scope=$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo none)
echo "kernel.yama.ptrace_scope: $scope"
if [ "$scope" != 0 ] && [ "$scope" != none ] && [ "$(id -u)" = 0 ]; then
    echo 0 > /proc/sys/kernel/yama/ptrace_scope && echo "set to 0 for this test"
fi
now() { python3 -c 'import time; print(time.monotonic_ns())'; }

part "torch.profiler, and the losses of an undisturbed run"
timeout 100 $as python3 train.py profiler > profiled.txt 2> profiler.err || { tail -3 profiler.err; wrong=1; }
cat profiled.txt
timeout 100 $as python3 train.py run 4000 plain.log plain.ready

part "the run that is attached to"
$as env LD_PRELOAD="$work/crash.so" CRASH_REPORT="$work/crash.txt" python3 train.py run 10000000 run.log ready > run.txt 2>&1 &
train=$!
while [ ! -s ready ] && [ $SECONDS -lt 200 ] && kill -0 $train 2>/dev/null; do sleep 0.2; done
pid=$(cat ready)
[ -n "$pid" ] || { echo "it did not start"; cat run.txt; exit 1; }
sleep 3
echo "threads $(ls /proc/$pid/task | wc -l), files $(ls /proc/$pid/fd | wc -l), mappings $(wc -l < /proc/$pid/maps)"
# Says where the program crashed, if it has.
crashed() {
    kill -0 "$pid" 2>/dev/null && return
    part "the program is gone: WRONG"
    tail -20 run.txt
    head -19 crash.txt 2>/dev/null
    [ -z "${KEEP:-}" ] || cp crash.txt run.txt "$KEEP/"
    exit 1
}
# attach NAME TRACE OPTIONS…: writes when the hooks were in place, less a moment at both ends.
attach() {
    local name=$1 trace=$2; shift 2
    local begin; begin=$(now)
    timeout 60 "$@" -v -d 4 -p "$pid" -o "$trace" > "$name.txt" 2>&1
    local status=$? end; end=$(now)
    echo "$name: status $status"
    grep -E 'paused|Total CUDA|launches:|lost|GPU times|Note' "$name.txt" | cut -c1-160 | head -12
    [ $status = 0 ] || { tail -3 "$name.txt"; wrong=1; }
    crashed
    python3 - "$trace" "$name" >> windows.txt <<'PY'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
start = lines[0]["start_ns"]
times = [line["ts"] for line in lines if "ts" in line]
print(sys.argv[2], int(start + min(times) * 1e6 + 2e8), int(start + max(times) * 1e6 - 2e8))
PY
    sleep 3
}
: > windows.txt
attach calls calls.jsonl $as ./cutrace --method=preload
attach calls+gpu both.jsonl $as ./cutrace --method=preload,cupti
attach calls+gpu+stacks stacks.jsonl $as ./cutrace --method=preload,cupti --stack=kernel
[ "$(id -u)" = 0 ] && attach ebpf ebpf.jsonl ./cutrace --method=ebpf
echo "threads $(ls /proc/$pid/task | wc -l), files $(ls /proc/$pid/fd | wc -l), mappings $(wc -l < /proc/$pid/maps)"
launches=$(grep -c '"op":"launch"' both.jsonl); nameless=$(grep '"op":"launch"' both.jsonl | grep -c 'unknown kernel')
echo "launches $launches, without a name $nameless"

part "$cycles cycles"
failed=0
for cycle in $(seq "$cycles"); do
    timeout 60 $as ./cutrace --method=preload,cupti -q --no-summary -d 0.1 -p "$pid" -o cycle.jsonl > cycle.txt 2>&1 || { failed=$((failed + 1)); head -2 cycle.txt; }
    crashed
done
echo "$cycles cycles, $failed failed: $([ $failed = 0 ] && echo ok || echo WRONG)"
[ $failed = 0 ] || wrong=1
sleep 4

part "verdict"
crashed
echo "the program runs: ok"
echo "threads $(ls /proc/$pid/task | wc -l), files $(ls /proc/$pid/fd | wc -l), mappings $(wc -l < /proc/$pid/maps)"
head -n -1 run.log > whole.log
python3 judge.py whole.log plain.log windows.txt both.jsonl profiled.txt || wrong=1
echo "$([ $wrong = 0 ] && echo 'all ok' || echo WRONG), $SECONDS s"
exit $wrong
