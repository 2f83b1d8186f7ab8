#!/bin/bash
# What the parts of recording a call cost PyTorch's loop, measured inside of one process: processes differ by more.
#
#   tests/gpu/parts.sh CUTRACE [PROCESSES]     CUTRACE: what tests/gpu/parts/build.py made
#
# The program runs on CORE (2), the tracer on OTHERS (4-15). RINGS="2048 65536": PROCESSES for each size of rings, in
# slots, in turn. WAYS: which parts (tests/gpu/parts/loop.py).
set -u
cutrace=${1:?usage: parts.sh CUTRACE [PROCESSES]}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for _ in $(seq "${2:-4}"); do
    for ring in ${RINGS:-usual}; do
        [ "$ring" = usual ] || echo "rings of $ring slots"
        RING=$ring taskset -c "${OTHERS:-4-15}" "$cutrace" record --method preload -q -o "$work/trace.arrows" -- \
            taskset -c "${CORE:-2}" python3 "$here/parts/loop.py" || failed=1
    done
done
exit $failed
