#!/bin/bash
# What tracing costs on a real GPU: a trivial call, a launch, a 4 KiB copy, and PyTorch's loop; plain,
# under cutrace, under CUPTI callbacks and under CUPTI activity, in interleaved rounds.
#
#   tests/gpu/record_bench.sh CUTRACE CUPTI_SO CALLS [ROUNDS]
#
# With BEFORE, the path of another cutrace, also under that one: what a change has brought, in one run.
# CALLS is tests/gpu/calls.c, built. Everything traced runs on one core, tracers on others: where the
# kernel moves a thread to says more about the machine's neighbours than about tracing.
set -u
cutrace=${1:?usage: record_bench.sh CUTRACE CUPTI_SO CALLS [ROUNDS]}
cupti=$(realpath "${2:?usage: record_bench.sh CUTRACE CUPTI_SO CALLS [ROUNDS]}")
calls=${3:?usage: record_bench.sh CUTRACE CUPTI_SO CALLS [ROUNDS]}
rounds=${4:-5}
here=$(cd "$(dirname "$0")" && pwd)
table=${OUT:-.}/record_bench.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cupti_folder=${CUPTI_FOLDER:-/usr/local/cuda/extras/CUPTI/lib64}
core=${CORE:-2}
others=${OTHERS:-4-15}
plain() { taskset -c "$core" "$@"; }
recorded() { taskset -c "$others" "$by" record --method preload -q -o "$work/trace.arrows" -- taskset -c "$core" "$@"; }
traced() { by=$cutrace recorded "$@"; }
before() { by=$BEFORE recorded "$@"; }
with_cupti() { LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$cupti_folder CUDA_INJECTION64_PATH=$cupti CUPTI_MODE=$mode taskset -c "$core" "$@"; }
callbacks() { mode=callbacks with_cupti "$@"; }
activity() { mode=activity with_cupti "$@"; }
ways="plain ${BEFORE:+before} traced callbacks activity"
for round in $(seq "$rounds"); do
    for way in $ways; do
        LD_LIBRARY_PATH=/usr/local/cuda/lib64:/usr/local/nvidia/lib64 $way "$calls" >>"$work/calls.$way" 2>>"$work/errors"
    done
done
if python3 -c 'import torch' 2>/dev/null; then
    for round in $(seq "$rounds"); do
        for way in $ways; do
            $way python3 "$here/torch_linear.py" 150 >>"$work/torch.$way" 2>>"$work/errors"
        done
    done
fi
least() { awk -v key="$2" '$1 == key { if (b == "" || $2 < b) b = $2 } END { print b == "" ? "-" : b }' "$work/$1" 2>/dev/null; }
{
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    echo "least of $rounds interleaved rounds; ns a call, us an iteration; reading the clock once: $(least calls.plain clock) ns"
    printf '%-12s %10s %10s %10s %10s %16s\n' "" trivial burst launch copy "8 Linear layers"
    for way in $ways; do
        printf '%-12s %10s %10s %10s %10s %16s\n' "$way" "$(least "calls.$way" trivial)" \
            "$(least "calls.$way" burst)" "$(least "calls.$way" launch)" \
            "$(least "calls.$way" copy)" "$(least "torch.$way" best_us)"
    done
    echo "8 Linear layers, least of each process:"
    for way in $ways; do
        echo "  $way $(awk '$1 == "best_us" { print $2 }' "$work/torch.$way" 2>/dev/null | paste -sd' ')"
    done
    sums=$(cat "$work"/torch.* 2>/dev/null | awk '/checksum/ { print $NF }' | sort -u | wc -l)
    echo "different results of the loop: $sums"
    sort "$work/errors" | uniq -c | head -n 5
} 2>&1 | tee "$table"
