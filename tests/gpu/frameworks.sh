#!/bin/bash
# Frameworks under every method on a real GPU: the same output and status as without, nothing lost, and every
# call recorded once (no call lies directly in one of the same name).
#
#   tests/gpu/frameworks.sh CUTRACE [PROGRAM …]
#
# METHODS and PARALLEL (how many run at once) can be set. Writes ${OUT:-.}/frameworks.txt.
set -u
cutrace=$(realpath "${1:?usage: frameworks.sh CUTRACE [PROGRAM …]}")
shift
here=$(cd "$(dirname "$0")" && pwd)
table=${OUT:-.}/frameworks.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
programs=("$@")
[ $# -gt 0 ] || programs=(jax cupy eager compile graph ddp triton)
methods=${METHODS:-preload cupti preload,events syscall ebpf auto all}

run() { # PROGRAM METHOD|plain: leaves a line in $work/PROGRAM.METHOD
    local program=$1 method=$2 name=$work/$1.$2
    export TORCHINDUCTOR_CACHE_DIR=$name.inductor TRITON_CACHE_DIR=$name.triton CUPY_CACHE_DIR=$name.cupy
    if [ "$method" = plain ]; then
        timeout -k 5 200 python3 "$here/frameworks.py" "$program" >"$name.out" 2>"$name.err"
        echo $? >"$name.status"
        return
    fi
    timeout -k 5 200 "$cutrace" record --method "$method" -o "$name.jsonl" -- python3 "$here/frameworks.py" "$program" \
        >"$name.out" 2>"$name.err"
    echo $? >"$name.status"
    python3 "$here/once.py" "$name.jsonl" >"$name.once" 2>&1
    rm -rf "$name.jsonl" "$name".*.inductor "$name".*.triton
}
export -f run
export work here cutrace
for program in "${programs[@]}"; do
    for method in plain $methods; do echo "$program $method"; done
done | xargs -P "${PARALLEL:-5}" -L 1 bash -c 'run "$1" "$2"' run

failed=0
{
    echo "program    method           result      calls  launches  kernels    lost  twice"
    for program in "${programs[@]}"; do
        for method in $methods; do
            name=$work/$program.$method
            plain=$work/$program.plain
            result=same
            cmp -s "$plain.out" "$name.out" || result="output differs"
            [ "$(cat "$name.status")" = "$(cat "$plain.status")" ] || result="status $(cat "$name.status")"
            [ "$(cat "$plain.status")" = 0 ] || result="does not run here"
            lost=$(sed -n 's/^Events lost: //p' "$name.err")
            read -r calls launches kernels twice <"$name.once"
            [ "$lost" = 0 ] || result="$result, lost"
            [ "${twice:-1}" = 0 ] || result="$result, calls twice"
            [ "$result" = same ] || { failed=$((failed + 1)); cp "$name.err" "${OUT:-.}/$program.$method.err"; }
            printf '%-10s %-16s %-10s %6s %9s %8s %7s %6s\n' "$program" "$method" "$result" "${calls:-?}" "${launches:-?}" "${kernels:-?}" "${lost:-?}" "${twice:-?}"
        done
    done
    echo "$failed failed"
} | tee "$table"
[ "$(tail -n 1 "$table")" = "0 failed" ]
