#!/bin/sh
# The driver's ioctls of PyTorch, by ptrace, on this machine's GPU: the same output as without,
# every request named, and what tracing costs.
# usage: syscall.sh CUTRACE [OUT]      CUTRACE: the binary; traces and figures go to OUT
# PARTS="programs cost": which to do. STRACE: an strace to compare with.
# Needs: python3 with torch, gcc, a CUDA driver. Exits 1 if a program fails, its output differs, events
# were lost or a report cannot be made. A target that is missed (a name unknown, controls below 95 %) is a
# line 'MISSED' and no failure: what no public header names stays unknown.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cutrace=$1
out=${2:-$(mktemp -d)}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAILED: $1"; failed=1; }
parts=" ${PARTS:-programs cost} "
wants() { case $parts in *" $1 "*) return 0 ;; *) return 1 ;; esac; }
head -2 /proc/driver/nvidia/version
if wants programs; then
    for program in inference train graph; do
        timeout 200 python3 "$here/torch_programs.py" $program > "$work/plain" 2> /dev/null || fail "$program by itself"
        timeout 200 "$cutrace" record --method=preload,syscall -o "$work/$program.jsonl" -- \
            python3 "$here/thread_names.py" "$work/$program.threads" "$here/torch_programs.py" $program \
            > "$work/traced" 2> "$work/said" || fail "$program, traced"
        if cmp -s "$work/plain" "$work/traced"; then echo "$program: same output"; else
            diff "$work/plain" "$work/traced" | head -5; fail "$program: the output differs"
        fi
        grep -E 'API calls|launches|IOCTL|Events lost|Note|vram|Tracer' "$work/said" || true
        grep -q '^Events lost: 0' "$work/said" || fail "$program: events were lost"
        python3 "$here/ioctl_names.py" "$work/$program.jsonl" || fail "$program: no ioctls"
        python3 "$here/outside_calls.py" "$work/$program.jsonl" "$work/$program.threads" || fail "$program: in no call"
    done
    # PyTorch asks NVML, too: with its functions hooked nothing should be left outside.
    timeout 200 "$cutrace" record --method=preload,syscall --lib 'libnvidia-ml.so*:nvml*' -q -o "$work/nvml.jsonl" -- \
        python3 "$here/torch_programs.py" inference > /dev/null 2>&1 || fail "inference with NVML's functions"
    echo "with NVML's functions hooked:"
    python3 "$here/outside_calls.py" "$work/nvml.jsonl" || fail "inference with NVML's functions: in no call"
    "$cutrace" report ioctls "$work/inference.jsonl" > "$out/ioctls.txt" 2>&1 || fail "report ioctls"
    "$cutrace" report contexts "$work/inference.jsonl" > "$out/contexts.txt" 2>&1 || fail "report contexts"
    "$cutrace" replay "$work/inference.jsonl" 2>/dev/null | grep -n 'ioctl\|cuMemAlloc_v2\|cuInit' | cut -c1-260 | head -400 > "$out/replay.txt" || true
    gzip -c "$work/inference.jsonl" > "$out/inference.jsonl.gz"
fi
wants cost || exit $failed
# What it costs: start-up and one allocation, interleaved, the least of three.
cat > "$work/start.py" <<'PYTHON'
import time, torch
begin = time.perf_counter()
torch.zeros(1, device="cuda")
print(f"{time.perf_counter() - begin:.3f}")
PYTHON
for round in 1 2 3; do
    printf 'context and first tensor, s: plain %s' "$(python3 "$work/start.py")"
    printf ', syscall %s' "$("$cutrace" record --method=syscall -q -o "$work/s.arrows" -- python3 "$work/start.py")"
    printf ', preload,syscall %s\n' "$("$cutrace" record --method=preload,syscall -q -o "$work/s.arrows" -- python3 "$work/start.py")"
done
gcc -O2 -w -o "$work/calls" "$here/../../bench/syscall/calls.c"
for round in 1 2 3; do
    for kind in getpid read close munmap ioctl close-driver munmap-driver; do
        count=1000000
        case $kind in ioctl | *-driver) count=20000 ;; esac
        printf '%s, ns: plain %s, a filter and no tracer %s, syscall %s\n' $kind \
            "$("$work/calls" $kind $count "$work")" "$("$work/calls" $kind $count "$work" filter)" \
            "$("$cutrace" record --method=syscall -q -o "$work/s.arrows" -- "$work/calls" $kind $count "$work")"
        [ -n "${STRACE:-}" ] || continue
        printf '%s, ns: strace --seccomp-bpf -f -e trace=ioctl %s\n' $kind \
            "$("$STRACE" --seccomp-bpf -f -e trace=ioctl -o "$work/s.strace" "$work/calls" $kind $count "$work")"
    done
done
exit $failed
