#!/bin/bash
# What the parts of recording a call cost PyTorch's loop, measured inside of one process: processes differ by more.
#
#   tests/gpu/parts.sh CUTRACE [PROCESSES]     CUTRACE: what tests/gpu/parts/build.py made
#
# The program runs on CORE (2), the tracer on OTHERS (4-15).
set -u
cutrace=${1:?usage: parts.sh CUTRACE [PROCESSES]}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for _ in $(seq "${2:-4}"); do
    taskset -c "${OTHERS:-4-15}" "$cutrace" record --method preload -q -o "$work/trace.arrows" -- \
        taskset -c "${CORE:-2}" python3 "$here/parts/loop.py" || failed=1
done
exit $failed
