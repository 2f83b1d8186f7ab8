#!/bin/bash
# PyTorch programs with one planted fault each: cutrace has to name it first, with its module and line.
#
#   OUT=FOLDER tests/gpu/planted.sh [CUTRACE]      needs python3 with torch and a GPU; about 25 s a program, six programs
#
# Then what memory of tensors and lines cost: COST=1, about 100 s more. Ends with the number of faults that were not found first.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cutrace=$(realpath "${1:-${CUTRACE:-$here/../../target/release/cutrace}}")
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
cd "$out" || exit 1
cp "$here/planted.py" .
wrong=0
for fault in ${FAULTS:-item norm optimizer loader leak none}; do
    printf '\n=== %s (%s s)\n' "$fault" "$SECONDS"
    timeout -k 2 90 "$cutrace" --modules -o "$fault.arrows" -- python3 planted.py "$fault" >"$fault.txt" 2>&1 || tail -5 "$fault.txt"
    grep -E 'Events lost|not recorded' "$fault.txt" | cut -c1-160
    timeout -k 2 30 "$cutrace" report findings --json "$fault.arrows" | python3 planted.py check "$fault" || wrong=$((wrong + 1))
    timeout -k 2 30 "$cutrace" report steps "$fault.arrows" | head -12
done
printf '\n=== memory (leak)\n'
timeout -k 2 30 "$cutrace" report memory leak.arrows | sed -n '/Tensors/,/Over time/p' | head -50
if [ -n "${COST:-}" ]; then
    printf '\n=== cost of a step of eight Linear layers, microseconds\n'
    timeout -k 2 120 python3 "$here/operators.py" cost "$cutrace" 9 90
fi
printf '\n%s faults not found first, %s s\n' "$wrong" "$SECONDS"
exit "$wrong"
