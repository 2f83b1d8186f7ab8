#!/bin/bash
# Runs prebuilt test programs on a real GPU and prints a table of names, results and seconds.
#
#   tests/gpu/programs.sh FOLDER     FOLDER: what `make -C tests/programs OUT=FOLDER` made
#
# The table also goes to $OUT/programs.txt (default: here); a failed program's words follow it.
# Exits 1 if any program fails. LIBRARIES: where libcudart.so.13 and libcuda.so.1 are.
set -u
folder=${1:?usage: programs.sh FOLDER}
out=${OUT:-.}
libraries=${LIBRARIES:-$folder:/usr/local/cuda/lib64:/usr/local/nvidia/lib64}
table=$out/programs.txt
log=$(mktemp)
words=$(mktemp)
trap 'rm -f "$log" "$words"' EXIT

failed=0
count=0
{
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null
    printf '%-16s %-8s %8s\n' program result seconds
} | tee "$table"
for program in "$folder"/*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    case $program in *.so*) continue ;; esac
    name=$(basename "$program")
    # These are given arguments, or looked at from outside, by other scripts.
    case $name in endless | loads | probe_cost | probed | uvm) continue ;; esac
    count=$((count + 1))
    start=$(date +%s.%N)
    LD_LIBRARY_PATH=$libraries timeout 60 "$program" >"$log" 2>&1
    status=$?
    seconds=$(awk -v from="$start" -v to="$(date +%s.%N)" 'BEGIN { printf "%.2f", to - from }')
    # The exit status alone is not believed: the program must also say that it passed.
    if [ $status = 0 ] && [ "$(tail -n 1 "$log")" = "PASS $name" ]; then
        result=pass
    else
        result="FAIL $status"
        [ $status = 124 ] && result=TIMEOUT
        failed=$((failed + 1))
        { echo; echo "--- $name"; cat "$log"; } >>"$words"
    fi
    printf '%-16s %-8s %8s\n' "$name" "$result" "$seconds" | tee -a "$table"
done
printf '%d programs, %d failed\n' $count $failed | tee -a "$table"
tee -a "$table" <"$words"
[ $count -gt 0 ] && [ $failed = 0 ]
