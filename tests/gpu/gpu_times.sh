#!/bin/bash
# GPU times on a real GPU: known kernels, counts, clocks, PyTorch beside torch.profiler, the cost.
#
#   tests/gpu/gpu_times.sh CUTRACE CUPTI_SO CALLS
#
# CUPTI_SO is tests/gpu/cupti.c and CALLS tests/gpu/calls.c, built. nvcc builds tests/gpu/gpu_times.cu
# here. PARTS="truth waits torch beside fallback cost": which to do. Writes ${OUT:-.}/gpu_times.txt.
set -u
usage="usage: gpu_times.sh CUTRACE CUPTI_SO CALLS"
cutrace=$(realpath "${1:?$usage}")
cupti=$(realpath "${2:?$usage}")
calls=$(realpath "${3:?$usage}")
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-.}
table=$out/gpu_times.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
parts=" ${PARTS:-truth waits torch beside fallback cost} "
failed=0
: >"$table"
say() { echo "$@" | tee -a "$table"; }
fail() { failed=$((failed + 1)); say "FAILED: $*"; }
wants() { case $parts in *" $1 "*) return 0 ;; *) return 1 ;; esac; }
# costs WAYS TORCH_WAYS ROUNDS TORCH_ROUNDS: a table of the least, each way in turn.
costs() {
    rm -f "$work"/calls.* "$work"/torch.*
    for round in $(seq "$3"); do
        for way in $1; do $way "$calls" >>"$work/calls.$way" 2>>"$work/errors"; done
    done
    for round in $(seq "$4"); do
        for way in $2; do $way python3 "$here/torch_linear.py" >>"$work/torch.$way" 2>>"$work/errors"; done
    done
    say "$(printf '%-12s %10s %10s %10s %16s' "" trivial launch copy "8 Linear layers")"
    for way in $1; do
        say "$(printf '%-12s %10s %10s %10s %16s' "$way" "$(least "calls.$way" trivial)" "$(least "calls.$way" launch)" \
            "$(least "calls.$way" copy)" "$(least "torch.$way" best_us)")"
    done
}
least() { awk -v key="$2" '$1 == key { if (b == "" || $2 < b) b = $2 } END { print b == "" ? "-" : b }' "$work/$1" 2>/dev/null; }
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-/usr/local/cuda/lib64:/usr/local/nvidia/lib64}
say "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)"

if wants truth; then
    program=${PROGRAM:-$work/gpu_times}
    [ -x "$program" ] || nvcc -O2 -arch=sm_90 -cudart shared -o "$program" "$here/gpu_times.cu" || fail "nvcc"
    for what in ${WHAT:-spin blocked handshake many graph}; do
        say "== $what"
        "$cutrace" record -v -o "$work/trace.jsonl" -- "$program" $what >"$work/said" 2>"$work/summary" || fail "$what under cutrace"
        python3 "$here/check_gpu_times.py" "$work/trace.jsonl" "$work/said" >"$work/compared" || fail "$what"
        say "$(cat "$work/compared")"
        say "$(grep -E 'CUPTI|on the GPU|GPU times|lost|order of time' "$work/summary" | cut -c1-200)"
    done
fi
if wants waits; then
    program=${PROGRAM:-$work/gpu_times}
    [ -x "$program" ] || nvcc -O2 -arch=sm_90 -cudart shared -o "$program" "$here/gpu_times.cu" || fail "nvcc"
    say "== waits for the GPU"
    "$cutrace" record -v --waits -o "$work/trace.jsonl" -- "$program" spin blocked >"$work/said" 2>"$work/summary" || fail "--waits"
    python3 "$here/check_gpu_waits.py" "$work/trace.jsonl" >"$work/compared" || fail "waits"
    say "$(cat "$work/compared")"
    say "== what --waits costs: least of interleaved rounds, ns a call (launch, copy), us an iteration"
    core=${CORE:-2} others=${OTHERS:-4-15}
    times() { taskset -c "$others" "$cutrace" record --method preload,cupti -q -o "$work/c.arrows" -- taskset -c "$core" "$@"; }
    withwaits() { taskset -c "$others" "$cutrace" record --method preload,cupti --waits -q -o "$work/c.arrows" -- taskset -c "$core" "$@"; }
    plain() { taskset -c "$core" "$@"; }
    costs "plain times withwaits" "plain times withwaits" "${ROUNDS:-4}" "${TORCH_ROUNDS:-3}"
fi
if wants fallback; then
    program=${PROGRAM:-$work/gpu_times}
    [ -x "$program" ] || nvcc -O2 -arch=sm_90 -cudart shared -o "$program" "$here/gpu_times.cu" || fail "nvcc"
    for what in ${WHAT:-spin blocked handshake many graph}; do
        say "== $what by events, without CUPTI"
        "$cutrace" record -v --method preload,events -o "$work/trace.jsonl" -- "$program" $what >"$work/said" 2>"$work/summary" || fail "$what by events"
        python3 "$here/check_gpu_events.py" "$work/trace.jsonl" "$work/said" >"$work/compared" || fail "$what by events"
        say "$(cat "$work/compared")"
        say "$(grep -E 'on the GPU|GPU times|lost' "$work/summary" | cut -c1-200)"
    done
    say "== a captured graph in PyTorch, by events"
    "$cutrace" record -v --method preload,events -o "$work/trace.jsonl" -- python3 -c '
import torch
x = torch.ones(1 << 16, device="cuda"); g = torch.cuda.CUDAGraph(); y = x * 2
torch.cuda.synchronize()
with torch.cuda.graph(g): y = x * 2 + 1
for _ in range(20): g.replay()
torch.cuda.synchronize(); print("sum", y.sum().item())' 2>"$work/summary" | tee "$work/said" || fail "capture by events"
    grep -q "sum 196608" "$work/said" || fail "captured graph by events: $(tail -n 3 "$work/summary")"
    say "$(grep -E 'on the GPU|GPU times' "$work/summary" | cut -c1-200)"
    say "== cost of events: least of interleaved rounds; ns a call, us an iteration"
    core=${CORE:-2} others=${OTHERS:-4-15}
    plain() { taskset -c "$core" "$@"; }
    preload() { taskset -c "$others" "$cutrace" record --method preload -q -o "$work/c.arrows" -- taskset -c "$core" "$@"; }
    times() { taskset -c "$others" "$cutrace" record --method preload,cupti -q -o "$work/c.arrows" -- taskset -c "$core" "$@"; }
    verbose() { taskset -c "$others" "$cutrace" record --method preload,cupti -v --no-summary -o "$work/c.arrows" -- taskset -c "$core" "$@" 2>/dev/null; }
    events() { taskset -c "$others" "$cutrace" record --method preload,events -q -o "$work/c.arrows" -- taskset -c "$core" "$@"; }
    ways="plain preload times verbose events"
    costs "$ways" "plain events" "${ROUNDS:-3}" "${TORCH_ROUNDS:-2}"
    sums=$(awk '{ print $NF }' "$work"/torch.* | sort -u)
    say "8 Linear layers: checksum $sums"
    [ "$(echo "$sums" | wc -l)" = 1 ] || fail "8 Linear layers: another result by events"
fi
if wants torch; then
    say "== PyTorch training step, beside torch.profiler's sum"
    "$cutrace" record -v -o "$work/trace.jsonl" -- python3 "$here/gpu_times_torch.py" train >"$work/said" 2>"$work/summary" || fail "training under cutrace"
    python3 "$here/gpu_times_torch.py" profiler >"$work/profiled" 2>/dev/null || fail "torch.profiler"
    python3 "$here/check_gpu_times_torch.py" "$work/trace.jsonl" "$work/said" "$work/profiled" >"$work/compared" || fail "sums differ"
    say "$(cat "$work/compared")"
    say "$(grep -E 'CUPTI|on the GPU|GPU times|lost|order of time' "$work/summary" | cut -c1-200)"
fi
if wants beside; then
    say "== torch.profiler in the traced program: its numbers with and without cutrace"
    python3 "$here/gpu_times_torch.py" inside >"$work/plain" 2>/dev/null
    "$cutrace" record -o "$work/trace.jsonl" -- python3 "$here/gpu_times_torch.py" inside >"$work/traced" 2>"$work/summary"
    say "plain:  $(cat "$work/plain")"
    say "traced: $(cat "$work/traced")"
    [ "$(awk '{ print $2 }' "$work/plain")" = "$(awk '{ print $2 }' "$work/traced")" ] || fail "torch.profiler saw another number of kernels"
    say "$(grep -E 'CUPTI|GPU times' "$work/summary" | cut -c1-200)"
    say "== without a libcupti, with one that is none, with another's injection"
    env CUDA_INJECTION64_PATH=/nonexistent/lib.so "$cutrace" record -o "$work/t.jsonl" -- "$calls" >/dev/null 2>"$work/summary" || fail "another's injection"
    say "$(grep -E 'GPU times' "$work/summary" | cut -c1-200)"
fi
if wants cost; then
    say "== cost: least of interleaved rounds; ns a call, us an iteration"
    core=${CORE:-2} others=${OTHERS:-4-15}
    plain() { taskset -c "$core" "$@"; }
    preload() { taskset -c "$others" "$cutrace" record --method preload -q -o "$work/c.arrows" -- taskset -c "$core" "$@"; }
    times() { taskset -c "$others" "$cutrace" record --method preload,cupti -q -o "$work/c.arrows" -- taskset -c "$core" "$@"; }
    only() { taskset -c "$others" "$cutrace" record --method cupti -q -o "$work/c.arrows" -- taskset -c "$core" "$@"; }
    alone() { LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/usr/local/cuda/extras/CUPTI/lib64:/usr/local/cuda/targets/x86_64-linux/lib CUDA_INJECTION64_PATH=$cupti CUPTI_MODE=$mode taskset -c "$core" "$@"; }
    activity() { mode=activity alone "$@"; }
    kernels() { mode=kernels alone "$@"; }
    ways="plain preload times only kernels activity"
    costs "$ways" "${TORCH_WAYS:-$ways}" "${ROUNDS:-4}" "${TORCH_ROUNDS:-3}"
    sort "$work/errors" | uniq -c | head -n 5
fi
say "failed: $failed"
[ $failed = 0 ]
