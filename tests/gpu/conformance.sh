#!/bin/sh
# Runs the PTX conformance set on this machine's GPU and leaves its answers as answers.bin.gz in
# ${OUT:-docs-out}, with what ran where in answers.txt. To keep them: copy both to fixtures/ptx.
# Needs: gcc, python3, a CUDA driver.
set -eu
export PYTHONDONTWRITEBYTECODE=1
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-docs-out}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

python3 "$here/conformance/generate.py" "$work" >"$work/made.txt"
gcc -O1 -Wall -o "$work/run" "$here/conformance/run.c" -ldl
total=0
for module in "$work"/module_*.ptx; do
    count=$(timeout 300 "$work/run" "$module" "$work/inputs.bin" "$module.out")
    echo "$(basename "$module"): $count cases"
    total=$((total + count))
done
cat "$work"/module_*.ptx.out >"$work/answers.bin"
gzip -9 -n -c "$work/answers.bin" >"$out/answers.bin.gz"
{
    cat "$work/made.txt"
    echo "$total run"
    sha256sum "$work/answers.bin" "$work/inputs.bin" "$work/cases.tsv" | sed "s,$work/,,"
    nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null || true
} >"$out/answers.txt"
cat "$out/answers.txt"
