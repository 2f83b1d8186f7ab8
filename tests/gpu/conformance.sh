#!/bin/sh
# Runs the PTX conformance sets on this machine's GPU and leaves their answers in ${OUT:-docs-out}:
# SET-answers.bin.gz, and what ran where in SET-answers.txt. To keep them, copy main's to
# fixtures/ptx and the others' to fixtures/ptx/SET, without the SET- in front.
# usage: conformance.sh [main] [boundary] [forms]   (all, if none is named)
# Needs: gcc, python3, a CUDA driver.
set -eu
export PYTHONDONTWRITEBYTECODE=1
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-docs-out}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
gcc -O1 -Wall -o "$work/run" "$here/conformance/run.c" -ldl

for set in ${@:-main boundary forms}; do
    cases=$work/$set
    option=
    [ "$set" = main ] || option=--$set
    python3 "$here/conformance/generate.py" "$cases" $option >"$work/made.txt"
    total=0
    for module in "$cases"/module_*.ptx; do
        count=$(timeout 300 "$work/run" "$module" "$cases/inputs.bin" "$module.out")
        echo "$set $(basename "$module"): $count cases"
        total=$((total + count))
    done
    cat "$cases"/module_*.ptx.out >"$cases/answers.bin"
    gzip -9 -n -c "$cases/answers.bin" >"$out/$set-answers.bin.gz"
    {
        cat "$work/made.txt"
        echo "$total run"
        (cd "$cases" && sha256sum answers.bin inputs.bin cases.tsv)
        nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null || true
    } >"$out/$set-answers.txt"
    cat "$out/$set-answers.txt"
done
