#!/bin/sh
# Compares, on a machine with a GPU, what eBPF sees of PyTorch with what preload sees: every API call as
# often, every ioctl with its struct, with --kernel beside. Also how long probes take to come and go, and what
# --kernel has to say where the kernel is locked down. Exits 1 if a count differs.
# usage: ebpf.sh CUTRACE FOLDER     needs root, python3 with torch; leaves its traces in FOLDER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cutrace=$1
folder=$2
mkdir -p "$folder"
program="$here/torch_linear.py"
for round in 1 2; do
    "$cutrace" --method=preload -q -o "$folder/preload_$round.jsonl" python3 "$program" >/dev/null
    "$cutrace" --method=ebpf --kernel -v -o "$folder/ebpf_$round.jsonl" python3 "$program" >/dev/null 2>"$folder/ebpf_$round.said"
    "$cutrace" --method=syscall -q -o "$folder/syscall_$round.jsonl" python3 "$program" >/dev/null
done
cat "$folder/ebpf_1.said"
"$cutrace" --kernel -q -o "$folder/kernel.jsonl" python3 -c pass 2>&1 | tail -8 || true
python3 "$here/compare_ebpf.py" "$folder"
