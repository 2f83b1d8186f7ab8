#!/bin/bash
# cutrace --method=ebpf beside bpftrace doing the same on a real GPU's driver: a JSON line at entry and at
# return of cuCtxGetCurrent, cuLaunchKernel and cuMemcpyHtoD. Nanoseconds added to a call, events lost; beside
# them the same probes with a script that does nothing (the kernel's own cost, below which nobody gets), with
# buffers so large that bpftrace loses nothing, and with a script that tells as much as cutrace keeps: all arguments,
# and the output. For all functions of libcuda: how long probes take to come and go,
# and whole runs. Rounds are interleaved and minima compared. bench/ebpf/run is the same without a GPU.
#
#   tests/gpu/ebpf_bench.sh CUTRACE BPFTRACE [ROUNDS]     needs root, cc, python3
#
# LIBCUDA names another library. What runs is tests/gpu/calls.c.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cutrace=$(realpath "${1:?usage: ebpf_bench.sh CUTRACE BPFTRACE [ROUNDS]}")
bpftrace=$(realpath "${2:?usage: ebpf_bench.sh CUTRACE BPFTRACE [ROUNDS]}")
rounds=${3:-3}
library=$(realpath "${LIBCUDA:-/usr/local/nvidia/lib64/libcuda.so.1}")
folder=$(dirname "$library")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/lib"
ln -s "$library" "$work/lib/libcuda.so.1"
export LD_LIBRARY_PATH=$work/lib:$folder
cc -O2 -o "$work/calls" "$here/calls.c" -ldl
cc -O2 -o "$work/loop" "$here/../../bench/ebpf/loop.c" -ldl

least() { awk -v key="$2" '$1 == key { if (b == "" || $2 < b) b = $2 } END { print b == "" ? "-" : b }' "$work/$1"; }

functions="cuCtxGetCurrent cuLaunchKernel cuMemcpyHtoD_v2"
for function in $functions; do
    cat <<SCRIPT
uprobe:$library:$function { printf("{\"ts\":%llu,\"pid\":%d,\"tid\":%d,\"name\":\"$function\",\"phase\":\"B\",\"arg0\":%llu}\n", nsecs, pid, tid, arg0); }
uretprobe:$library:$function { printf("{\"ts\":%llu,\"pid\":%d,\"tid\":%d,\"name\":\"$function\",\"phase\":\"E\",\"result\":%llu}\n", nsecs, pid, tid, retval); }
SCRIPT
done >"$work/script.bt"
for function in $functions; do
    echo "uprobe:$library:$function { \$nothing = 1; } uretprobe:$library:$function { \$nothing = 1; }"
done >"$work/nothing.bt"
cat >"$work/all.bt" <<SCRIPT
uprobe:$library:cuCtxGetCurrent { @to[tid] = arg0; printf("{\"ts\":%llu,\"pid\":%d,\"tid\":%d,\"name\":\"cuCtxGetCurrent\",\"phase\":\"B\",\"arg0\":%llu}\n", nsecs, pid, tid, arg0); }
uretprobe:$library:cuCtxGetCurrent { printf("{\"ts\":%llu,\"pid\":%d,\"tid\":%d,\"name\":\"cuCtxGetCurrent\",\"phase\":\"E\",\"result\":%llu,\"context\":%llu}\n", nsecs, pid, tid, retval, *(uint64 *)uptr(@to[tid])); delete(@to[tid]); }
uprobe:$library:cuLaunchKernel { printf("{\"ts\":%llu,\"pid\":%d,\"tid\":%d,\"name\":\"cuLaunchKernel\",\"phase\":\"B\",\"args\":[%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu]}\n", nsecs, pid, tid, arg0, arg1, arg2, arg3, arg4, arg5, sarg0, sarg1, sarg2, sarg3, sarg4); }
uretprobe:$library:cuLaunchKernel { printf("{\"ts\":%llu,\"pid\":%d,\"tid\":%d,\"name\":\"cuLaunchKernel\",\"phase\":\"E\",\"result\":%llu}\n", nsecs, pid, tid, retval); }
uprobe:$library:cuMemcpyHtoD_v2 { printf("{\"ts\":%llu,\"pid\":%d,\"tid\":%d,\"name\":\"cuMemcpyHtoD_v2\",\"phase\":\"B\",\"args\":[%llu,%llu,%llu]}\n", nsecs, pid, tid, arg0, arg1, arg2); }
uretprobe:$library:cuMemcpyHtoD_v2 { printf("{\"ts\":%llu,\"pid\":%d,\"tid\":%d,\"name\":\"cuMemcpyHtoD_v2\",\"phase\":\"E\",\"result\":%llu}\n", nsecs, pid, tid, retval); }
SCRIPT

# Lines of the two phases; what a trace says was lost.
count='
import json, sys
phases, lost = {"B": 0, "E": 0}, 0
for line in open(sys.argv[1], errors="replace"):
    try:
        one = json.loads(line)
    except ValueError:
        continue
    if one.get("name") in ("cuCtxGetCurrent", "cuLaunchKernel", "cuMemcpyHtoD_v2"):
        if one.get("type", "userspace") == "userspace" and one.get("phase") in phases:
            phases[one["phase"]] += 1
    if one.get("type") == "lost":
        lost += one.get("count", 0)
print(phases["B"], "beginnings,", phases["E"], "returns, said to be lost", lost)
'
for _ in $(seq "$rounds"); do
    "$work/calls" 1 11111 >>"$work/plain"
    "$cutrace" --method=ebpf -q -e cuCtxGetCurrent,cuLaunchKernel,cuMemcpyHtoD_v2 -o "$work/trace.jsonl" \
        -- "$work/calls" 1 11111 >>"$work/ours"
    python3 -c "$count" "$work/trace.jsonl" >>"$work/ours.kept"
    "$bpftrace" -q -c "$work/calls 1 11111" "$work/script.bt" >"$work/bpftrace.out" 2>"$work/bpftrace.err" || true
    grep -E '^(trivial|burst|launch|copy) ' "$work/bpftrace.out" >>"$work/theirs" || true
    grep -v '^{' "$work/bpftrace.err" | tail -n 1 >>"$work/theirs.said" || true
    python3 -c "$count" "$work/bpftrace.out" >>"$work/theirs.kept"
    BPFTRACE_PERF_RB_PAGES=16384 "$bpftrace" -q -c "$work/calls 1 11111" "$work/script.bt" >"$work/bpftrace.out" 2>/dev/null || true
    grep -E '^(trivial|burst|launch|copy) ' "$work/bpftrace.out" >>"$work/roomy" || true
    python3 -c "$count" "$work/bpftrace.out" >>"$work/roomy.kept"
    "$bpftrace" -q -c "$work/calls 1 11111" "$work/all.bt" >"$work/bpftrace.out" 2>"$work/bpftrace.err" || cat "$work/bpftrace.err"
    grep -E '^(trivial|burst|launch|copy) ' "$work/bpftrace.out" >>"$work/all" || true
    "$bpftrace" -q -c "$work/calls 1 11111" "$work/nothing.bt" >>"$work/nothing" 2>/dev/null || true
    rm -f "$work/trace.jsonl" "$work/bpftrace.out"
done
echo "$library, least of $rounds rounds, ns a call"
for what in trivial burst launch copy; do
    python3 - "$what" "$(least plain $what)" "$(least ours $what)" "$(least theirs $what)" "$(least roomy $what)" "$(least nothing $what)" "$(least all $what)" <<'TABLE'
import sys
what = sys.argv[1]
try:
    plain, ours, theirs, roomy, nothing, full = map(float, sys.argv[2:8])
    print(f"{what:8} plain {plain:7.1f}  probes that do nothing {nothing - plain:+8.1f}  cutrace {ours - plain:+8.1f}  "
          f"bpftrace {theirs - plain:+8.1f}  bpftrace, 64 MiB a processor {roomy - plain:+8.1f}  "
          f"bpftrace, all that cutrace keeps {full - plain:+8.1f}  "
          f"ratio {(ours - plain) / (theirs - plain):.3f}, of nothing {(nothing - plain) / (theirs - plain):.3f}, "
          f"cutrace beside all that it keeps {(ours - plain) / (full - plain):.3f}")
except (ValueError, ZeroDivisionError):
    print(what, sys.argv[2:8])
TABLE
done
echo "calls made in a round: $((9 * 11111 + 9 * 30000 + 9 * 500 + 9 * 500))"
sort "$work/ours.kept" | uniq -c | sed 's/^/  cutrace: /'
sort "$work/theirs.kept" | uniq -c | sed 's/^/  bpftrace: /'
sort "$work/roomy.kept" | uniq -c | sed 's/^/  bpftrace, 64 MiB: /'
sort "$work/theirs.said" 2>/dev/null | uniq -c | head -n 4 | sed 's/^/  bpftrace says: /'

for _ in $(seq "$rounds"); do
    began=$(date +%s%N)
    "$cutrace" --method=ebpf -v --no-summary -o "$work/trace.jsonl" "$work/loop" "$library" cuCtxGetCurrent 1 2>"$work/said" || true
    echo "whole $((($(date +%s%N) - began) / 1000000))" >>"$work/whole"
    grep -o 'attached in .*' "$work/said" >>"$work/attach" || tail -n 3 "$work/said"
    began=$(date +%s%N)
    BPFTRACE_MAX_PROBES=8192 timeout 60 "$bpftrace" -q -c "$work/loop $library cuCtxGetCurrent 1" \
        -e "uprobe:$library:cu* { @c = count(); } uretprobe:$library:cu* { @r = count(); }" >/dev/null 2>&1 || true
    echo "whole $((($(date +%s%N) - began) / 1000000))" >>"$work/whole.theirs"
done
echo "all functions of libcuda:"
sed 's/^/  cutrace: /' "$work/attach"
echo "  whole run, least: cutrace $(least whole whole) ms, bpftrace $(least whole.theirs whole) ms"
