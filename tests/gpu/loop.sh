#!/bin/bash
# PyTorch's loop, plain and under cutrace, process by process: how much of the difference between two runs is the
# tracer's, and how much the machine's? Every process is shown, none is left out.
#
#   tests/gpu/loop.sh CUTRACE PLACES [ROUNDS [BATCHES]]
#
# PLACES is tests/gpu/places.c, built: it says how the processors of this machine lie to each other. The program runs
# on CORE (2), the tracer on OTHERS (4-15). "near" and "far" have the tracer on one processor, the one from which a
# line of memory comes to CORE fastest, and slowest; "before" is the cutrace that BEFORE names, and "few" leaves the calls
# out that only ask which device is current (-e). WAYS are plain and traced by default.
set -u
cutrace=${1:?usage: loop.sh CUTRACE PLACES [ROUNDS [BATCHES]]}
places=${2:?usage: loop.sh CUTRACE PLACES [ROUNDS [BATCHES]]}
rounds=${3:-4}
batches=${4:-200}
here=$(cd "$(dirname "$0")" && pwd)
core=${CORE:-2}
others=${OTHERS:-4-15}
ways=${WAYS:-plain traced}
series=${OUT:-.}/loop
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$series"
lscpu | grep -E 'Model name|Thread|Socket|NUMA node\(s\)'
"$places" "$core" | tee "$work/places"
near=$(sort -g -k 6 "$work/places" | awk 'NR == 1 { print $2 }')
far=$(sort -g -k 6 "$work/places" | awk 'END { print $2 }')

loop() { "$@" python3 "$here/torch_linear.py" "$batches" "$series/$name"; }
on() { taskset -c "$1" "${by:-$cutrace}" record --method preload -q ${only:+-e "$only"} -o "$work/trace.arrows" -- taskset -c "$core" python3 "$here/torch_linear.py" "$batches" "$series/$name"; }
steal() { awk -v cpu="cpu$core" '$1 == cpu { print $9 }' /proc/stat; }
stolen=$(steal)
for round in $(seq "$rounds"); do
    for way in $ways; do
        name=$way.$round
        case $way in
            plain) loop taskset -c "$core" ;;
            traced) on "$others" ;;
            before) by=$BEFORE on "$others" ;;
            few) only='!cudaGetDevice,!cuCtxGetDevice*,!cuDevicePrimaryCtxGetState,!cuCtxGetCurrent' on "$others" ;;
            near) on "$near" ;;
            far) on "$far" ;;
        esac
    done
done 2>"$work/errors" | awk '{ print $NF }' | sort | uniq -c | sed 's/^/processes and their result:/'
echo "stolen from processor $core meanwhile, as far as the kernel knows: $(($(steal) - stolen)) hundredths of a second"
sort "$work/errors" | uniq -c | head -n 5
python3 "$here/loop_ratio.py" "$series" $ways
