#!/bin/bash
# GPU times under the Multi-Process Service: two processes at once, each traced; counts, and what was said.
#
#   tests/gpu/mps.sh CUTRACE [PROGRAM]
#
# Starts a control daemon of its own, in folders of its own, and ends it by its own command; one that runs
# already is left alone, and then nothing is done. PROGRAM is tests/gpu/gpu_times.cu, built; without it nvcc
# builds it here. SIM=1: on softgpu without a daemon, to try the script. Everything has a time limit. Writes
# ${OUT:-.}/mps.txt.
set -u
cutrace=$(realpath "${1:?usage: mps.sh CUTRACE [PROGRAM]}")
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-.}
table=$out/mps.txt
work=$(mktemp -d)
limit=${LIMIT:-120}
failed=0 ours=
say() { echo "$@" | tee -a "$table"; }
fail() { failed=$((failed + 1)); say "FAILED: $*"; }
: >"$table"
finish() {
    # The daemon ends when its clients have; its server with it.
    [ -n "$ours" ] && echo quit | timeout 30 nvidia-cuda-mps-control >/dev/null 2>&1
    rm -rf "$work"
}
trap finish EXIT
program=${2:-}
if [ -z "$program" ]; then
    program=$work/gpu_times
    timeout "$limit" nvcc -O2 -arch="${ARCH:-sm_90}" -cudart shared -o "$program" "$here/gpu_times.cu" || { say "no program: nvcc failed"; exit 1; }
fi
program=$(realpath "$program")
what=${WHAT:-graph}
if [ -n "${SIM:-}" ]; then
    sim=--sim
else
    sim=
    command -v nvidia-cuda-mps-control >/dev/null || { say "skipped: no nvidia-cuda-mps-control"; exit 0; }
    if grep -q "${CUDA_MPS_PIPE_DIRECTORY:-/tmp/nvidia-mps}/" /proc/net/unix; then
        say "skipped: a control daemon runs already, and is not ours to end"
        exit 0
    fi
    export CUDA_MPS_PIPE_DIRECTORY=$work/pipes CUDA_MPS_LOG_DIRECTORY=$work/log
    mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    timeout 30 nvidia-cuda-mps-control -d || { say "skipped: the control daemon did not start: $(tail -n 2 "$CUDA_MPS_LOG_DIRECTORY"/*.log 2>/dev/null)"; exit 0; }
    ours=1
    say "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)"
    say "doctor: $("$cutrace" doctor | grep 'without MPS')"
fi
for method in preload,cupti preload,events; do
    say "== two processes, $method"
    pids=
    for one in 1 2; do
        timeout "$limit" "$cutrace" record -v $sim --method $method -o "$work/$one.jsonl" -- "$program" $what >"$work/$one.said" 2>"$work/$one.summary" &
        pids="$pids $!"
    done
    for pid in $pids; do wait "$pid" || fail "a traced process failed under $method"; done
    for one in 1 2; do
        check=check_gpu_times.py
        [ $method = preload,events ] && check=check_gpu_events.py
        timeout "$limit" python3 "$here/$check" "$work/$one.jsonl" "$work/$one.said" >"$work/compared" || fail "process $one, $method"
        say "$(grep -E 'WRONG|ok ' "$work/compared" | head -n 8)"
        say "$(grep -E 'MPS|CUPTI|on the GPU|GPU times|lost' "$work/$one.summary" | cut -c1-240)"
        [ -n "$sim" ] || grep -q "under MPS" "$work/$one.summary" || fail "process $one does not mention MPS ($method)"
    done
done
if [ -n "$ours" ]; then
    say "servers: $(echo get_server_list | timeout 30 nvidia-cuda-mps-control 2>&1 | tr '\n' ' ')"
fi
say "failed: $failed"
[ $failed = 0 ]
