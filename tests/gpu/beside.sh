#!/bin/bash
# PyTorch's training under preload on a real GPU while other tracers attach to libcuda and leave again: the same
# losses printed, status 0, and as many calls of each function as without them, or counted as lost.
#
#   tests/gpu/beside.sh CUTRACE [BPFTRACE]     needs root; BPFTRACE: a command that starts it
#
# ROUNDS (50) of each; ONLY=bpftrace leaves cutrace out; training lasts about SECONDS_EACH (90). Writes ${OUT:-.}/beside.txt.
set -u
cutrace=$(realpath "${1:?usage: beside.sh CUTRACE [BPFTRACE]}")
bpftrace=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
table=${OUT:-.}/beside.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rounds=${ROUNDS:-50}
length=${SECONDS_EACH:-90}
library=$(realpath "${LIBCUDA:-/usr/local/nvidia/lib64/libcuda.so.1}")
failed=0
: >"$table"
say() { echo "$@" | tee -a "$table"; }

train() { # NAME: training under preload, in the background
    "$cutrace" record --method preload -o "$work/$1.arrows" -- python3 "$here/frameworks.py" long "$steps" \
        >"$work/$1.out" 2>"$work/$1.err"
    echo $? >"$work/$1.status"
}
counts() { # NAME: what the summary counts; prints what was lost
    grep -E '(Total CUDA API calls|Kernel launches|Memory transfers):' "$work/$1.err" >"$work/$1.counts"
    sed -n 's/^Events lost: //p' "$work/$1.err"
}
check() { # NAME WHAT DONE
    local lost result=same
    lost=$(counts "$1")
    cmp -s "$work/alone.out" "$work/$1.out" || result="output differs"
    [ "$(cat "$work/$1.status")" = 0 ] || result="status $(cat "$work/$1.status")"
    [ "$lost" = 0 ] || result="$result, lost $lost"
    cmp -s "$work/alone.counts" "$work/$1.counts" || result="$result, calls differ"
    [ "$3" -ge "$rounds" ] || result="$result, only $3 rounds"
    say "$(printf '%-34s %-12s %s times, %s calls, %s lost' "$2" "$result" "$3" "$(sed -n 's/.*API calls: //p' "$work/$1.counts")" "$lost")"
    if [ "$result" != same ]; then
        failed=$((failed + 1))
        diff "$work/alone.counts" "$work/$1.counts" | head -n 10
        tail -n 5 "$work/$1.err"
    fi
}
beside() { # NAME WHAT COMMAND…: runs the command again and again while training goes on
    local name=$1 what=$2 done=0 began
    shift 2
    train "$name" &
    began=$!
    sleep 4
    while [ -d /proc/$began ] && [ $done -lt "$rounds" ]; do
        timeout 60 "$@" >"$work/other.out" 2>"$work/other.err" || { say "$what: $(tail -n 1 "$work/other.err")"; break; }
        [ -d /proc/$began ] && done=$((done + 1))
    done
    wait $began
    check "$name" "$what" $done
}

# As many steps as the other tracers need time for.
each=$(python3 "$here/frameworks.py" long 6000 2>&1 >/dev/null | sed -n 's/^elapsed //p')
steps=$(awk -v each="$each" -v length_s="$length" 'BEGIN { print int(length_s / each * 6) * 1000 }')
train alone
counts alone >/dev/null
say "$steps steps of training, $(wc -l <"$work/alone.out") losses, status $(cat "$work/alone.status")"
[ "${ONLY:-}" = bpftrace ] || beside attach "cutrace -a, attached and gone" "$cutrace" record -a -d 0.2 -q -o "$work/other.arrows"
if [ -n "$bpftrace" ]; then
    script="uprobe:$library:cuLaunchKernel { @ = count(); } uretprobe:$library:cuLaunchKernel { @r = count(); } uprobe:$library:cuCtxGetCurrent { @c = count(); } interval:ms:200 { exit(); }"
    beside bpftrace "bpftrace, attached and gone" $bpftrace -e "$script"
fi
say "$failed failed"
[ $failed = 0 ]
