#!/bin/bash
# Traces real programs on a real GPU and checks that tracing changes nothing but the trace.
#
#   tests/gpu/record.sh CUTRACE FOLDER    FOLDER: what `make -C tests/programs all static` made
#
# For each program: the same output and exit status with and without cutrace, calls recorded, none
# lost. PyTorch is in record_torch.sh, what it costs in record_bench.sh.
# Writes ${OUT:-.}/record.txt and ${OUT:-.}/record_traces.tar.gz; with METHOD=preload, which leaves CUPTI's own calls
# out, fixtures/calls is made of those. Exits 1 if anything differs.
set -u
cutrace=${1:?usage: record.sh CUTRACE FOLDER}
folder=${2:?usage: record.sh CUTRACE FOLDER}
out=${OUT:-.}
table=$out/record.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/traces"
export LD_LIBRARY_PATH=${LIBRARIES:-$folder:/usr/local/cuda/lib64:/usr/local/nvidia/lib64}
failed=0

# Times and addresses differ from run to run.
plain() { sed -E 's/[0-9]+\.[0-9]+|0x[0-9a-f]+/N/g' "$1"; }
field() { sed -n "s/.*\"$2\":\([0-9]*\).*/\1/p" <(tail -n 1 "$1") | head -n 1; }

check() { # name command…
    local name=$1
    shift
    timeout 120 "$@" >"$work/plain" 2>&1
    local expected=$?
    timeout 120 "$cutrace" record ${METHOD:+--method "$METHOD"} -q -o "$work/trace.jsonl" -- "$@" >"$work/traced" 2>&1
    local status=$?
    local result=same
    [ $status = $expected ] || result="status $status, not $expected"
    cmp -s <(plain "$work/plain") <(plain "$work/traced") || result="output differs"
    local events lost launches
    events=$(field "$work/trace.jsonl" events)
    lost=$(field "$work/trace.jsonl" lost)
    launches=$(grep -c '"op":"launch"' "$work/trace.jsonl")
    [ "${events:-0}" -gt 0 ] || result="no events"
    [ "${lost:-1}" = 0 ] || result="$lost lost"
    [ "$result" = same ] || { failed=$((failed + 1)); diff <(plain "$work/plain") <(plain "$work/traced") | head -n 5; }
    mv "$work/trace.jsonl" "$work/traces/${name//\//_}.jsonl"
    printf '%-24s %-16s %8s %8s\n' "$name" "$result" "${events:--}" "$launches" | tee -a "$table"
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | tee "$table"
printf '%-24s %-16s %8s %8s\n' program result events launches | tee -a "$table"
for program in "$folder"/* "$folder"/static/*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    check "${program#"$folder"/}" "$program"
done

tar -czf "$out/record_traces.tar.gz" -C "$work/traces" .
printf '%d failed\n' $failed | tee -a "$table"
[ $failed = 0 ]
