#!/bin/bash
# PyTorch under `cutrace record` on a real GPU: the same numbers as without, nothing lost, and as many
# calls of each function as CUPTI counts.
#
#   tests/gpu/record_torch.sh CUTRACE CUPTI_SO FOLDER
#
# CUPTI_SO is tests/gpu/cupti.c, built; FOLDER holds test programs. Writes ${OUT:-.}/record_torch.txt.
# PARTS="torch counts": which of the two to do.
set -u
cutrace=${1:?usage: record_torch.sh CUTRACE CUPTI_SO FOLDER}
cupti=$(realpath "${2:?usage: record_torch.sh CUTRACE CUPTI_SO FOLDER}")
folder=${3:?usage: record_torch.sh CUTRACE CUPTI_SO FOLDER}
here=$(cd "$(dirname "$0")" && pwd)
table=${OUT:-.}/record_torch.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libraries=${LIBRARIES:-$folder:/usr/local/cuda/lib64:/usr/local/nvidia/lib64}
cupti_folder=${CUPTI_FOLDER:-/usr/local/cuda/extras/CUPTI/lib64}
failed=0
parts=" ${PARTS:-torch counts} "
: >"$table"
say() { echo "$@" | tee -a "$table"; }
fail() { failed=$((failed + 1)); say "FAILED: $*"; }

programs="inference train compile graph two profiler"
case $parts in *" torch "*) say "PyTorch with and without cutrace" ;; *) programs="" ;; esac
for what in $programs; do
    # Both compile for themselves.
    TORCHINDUCTOR_CACHE_DIR=$work/a TRITON_CACHE_DIR=$work/at python3 "$here/torch_programs.py" $what >"$work/plain" 2>"$work/plain.err"
    expected=$?
    began=$(date +%s)
    TORCHINDUCTOR_CACHE_DIR=$work/b TRITON_CACHE_DIR=$work/bt \
        "$cutrace" record -o "$work/trace.jsonl" -- python3 "$here/torch_programs.py" $what >"$work/traced" 2>"$work/summary"
    status=$?
    result=same
    [ $status = $expected ] || result="status $status, not $expected"
    cmp -s "$work/plain" "$work/traced" || result="output differs"
    calls=$(sed -n 's/ *Total CUDA API calls: //p' "$work/summary")
    lost=$(sed -n 's/^Events lost: //p' "$work/summary")
    launches=$(sed -n 's/ *Kernel launches: \([0-9]*\).*/\1/p' "$work/summary")
    [ "$lost" = 0 ] || result="lost $lost"
    say "$(printf '%-10s %-8s %8s calls %6s launches %s lost, exit %s' $what "$result" "$calls" "$launches" "$lost" $status)"
    [ "$result" = same ] || { fail $what; diff "$work/plain" "$work/traced"; tail -n 3 "$work/plain.err" "$work/summary"; }
done

say
say "Counts beside CUPTI's: each program once under each"
count() { # name, library path, options of compare, command…
    local name=$1 path=$2 options=$3
    shift 3
    rm -f "$work/counts"
    LD_LIBRARY_PATH=$path "$cutrace" record -q -o "$work/trace.jsonl" -- "$@" >/dev/null 2>&1 || fail "$name under cutrace"
    LD_LIBRARY_PATH=$path:$cupti_folder CUDA_INJECTION64_PATH=$cupti CUPTI_COUNTS=$work/counts \
        "$@" >/dev/null 2>"$work/err" || fail "$name under CUPTI"
    say "$name"
    if [ -s "$work/counts" ]; then
        python3 "$here/compare_counts.py" "$work/trace.jsonl" "$work/counts" $options >"$work/compared" || fail "$name: counts differ"
        say "$(cat "$work/compared")"
    else
        fail "$name: CUPTI said nothing: $(head -n 2 "$work/err")"
    fi
}
case $parts in *" counts "*) ;; *) exit $((failed > 0)) ;; esac
for program in vector_add driver_api streams_overlap threads8 graph events static/threads8; do
    count $program "$libraries" "" "$folder/$program"
done
count "torch inference" "" --hidden-runtimes python3 "$here/torch_programs.py" inference
count "torch train" "" --hidden-runtimes python3 "$here/torch_programs.py" train
count "torch graph" "" --hidden-runtimes python3 "$here/torch_programs.py" graph
say "$failed failed"
[ $failed = 0 ]
