#!/bin/bash
# Traces real programs on a real GPU and checks that tracing changes nothing but the trace.
#
#   tests/gpu/record.sh CUTRACE FOLDER    FOLDER: what `make -C tests/programs all static` made
#
# For each program: the same output and exit status with and without cutrace, calls recorded, none
# lost. Then PyTorch (python3 with torch, if there is one): the same result, and its slowdown.
# Writes ${OUT:-.}/record.txt; exits 1 if anything differs.
set -u
cutrace=${1:?usage: record.sh CUTRACE FOLDER}
folder=${2:?usage: record.sh CUTRACE FOLDER}
out=${OUT:-.}
here=$(cd "$(dirname "$0")" && pwd)
table=$out/record.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
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
    timeout 120 "$cutrace" record -q -o "$work/trace.jsonl" -- "$@" >"$work/traced" 2>&1
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
    printf '%-24s %-16s %8s %8s\n' "$name" "$result" "${events:--}" "$launches" | tee -a "$table"
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | tee "$table"
printf '%-24s %-16s %8s %8s\n' program result events launches | tee -a "$table"
for program in "$folder"/* "$folder"/static/*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    check "${program#"$folder"/}" "$program"
done

if python3 -c 'import torch' 2>/dev/null; then
    # The machine has fast and slow seconds: interleave, and compare the best of each.
    for round in 1 2 3 4; do
        python3 "$here/torch_linear.py" >>"$work/torch.plain" 2>&1
        "$cutrace" record -q -o "$work/torch.arrows" -- python3 "$here/torch_linear.py" >>"$work/torch.traced" 2>&1
    done
    best() { awk '{ if (!b || $2 < b) b = $2 } END { print b }' "$1"; }
    sums() { awk '{ print $4 }' "$work/torch.plain" "$work/torch.traced" | sort -u | wc -l; }
    a=$(best "$work/torch.plain") b=$(best "$work/torch.traced")
    printf 'PyTorch, 8 Linear layers: plain %s us, traced %s us, %s x\n' "$a" "$b" \
        "$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.2f", b / a }')" | tee -a "$table"
    [ "$(sums)" = 1 ] || { echo "PyTorch's results differ" | tee -a "$table"; failed=$((failed + 1)); }
fi
printf '%d failed\n' $failed | tee -a "$table"
[ $failed = 0 ]
