#!/bin/sh
# Runs 2,000 random BPF programs, translated to PTX, on this machine's GPU and compares what they
# leave with the reference's answers. Exits 1 if one differs.
# usage: bpf_semantics.sh FOLDER     FOLDER as written, on a machine with cargo, by
#   CUTRACE_BPF_BATCH=FOLDER cargo test -p cutrace-gpubpf --test semantics -- --ignored write_batch
# Needs: gcc, a CUDA driver.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gcc -O1 -Wall -o "$work/run" "$here/bpf_semantics.c" -ldl
failed=0
for module in "$folder"/module_*.ptx; do
    timeout 300 "$work/run" "$module" "${module%.ptx}.expected" "$folder/operands.bin" "$folder/before.bin" || failed=1
done
nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null || true
exit $failed
