#!/bin/bash
# PyTorch's operators on a real GPU, beside torch.profiler: counts by name, the operator of each kernel, and the cost.
#
#   OUT=FOLDER tests/gpu/operators.sh [CUTRACE]      needs python3 with torch; done within 300 s
#
# ROUNDS (9) interleaved rounds of the loop, within 120 s; PARTS=cost runs only these. Ends with the number of programs that differ. CUTRACE is target/release/cutrace if
# it is not given, nor in $CUTRACE.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cutrace=$(realpath "${1:-${CUTRACE:-$here/../../target/release/cutrace}}")
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
cd "$out" || exit 1
part() { printf '\n=== %s (%s s)\n' "$*" "$SECONDS"; }
wrong=0
python3 -c 'import torch; print("torch", torch.__version__)'

if [ "${PARTS:-all}" != cost ]; then
for name in gpt decode compiled graph; do
    part "$name"
    timeout -k 2 90 python3 "$here/operators.py" program $name "$out/$name.profile.json" >$name.profile.txt 2>&1 || tail -3 $name.profile.txt
    timeout -k 2 90 "$cutrace" -o "$out/$name.arrows" -- python3 "$here/operators.py" program $name >$name.txt 2>&1 || tail -5 $name.txt
    grep -E 'Events lost|not recorded|lost' $name.txt | cut -c1-160 | head -4
    timeout -k 2 30 "$cutrace" cat "$out/$name.arrows" | timeout -k 2 60 python3 "$here/operators.py" compare - "$out/$name.profile.json" || wrong=$((wrong + 1))
done

part "origins of graphs' kernels"
timeout -k 2 30 "$cutrace" cat "$out/graph.arrows" | timeout -k 2 60 python3 "$here/operators.py" origins || wrong=$((wrong + 1))
if command -v nvcc >/dev/null && nvcc -o graph "$here/../programs/graph.cu" -I "$here/../programs" >nvcc.txt 2>&1; then
    timeout -k 2 60 "$cutrace" -o "$out/plain.arrows" -- ./graph >plain.txt 2>&1 || tail -3 plain.txt
    timeout -k 2 30 "$cutrace" cat "$out/plain.arrows" | timeout -k 2 60 python3 "$here/operators.py" origins || wrong=$((wrong + 1))
fi

part "modules and steps (gpt)"
timeout -k 2 90 "$cutrace" --modules --shapes -o "$out/modules.arrows" -- python3 "$here/operators.py" program gpt >modules.txt 2>&1 || tail -5 modules.txt
timeout -k 2 30 "$cutrace" report modules "$out/modules.arrows" | head -24
timeout -k 2 30 "$cutrace" report steps "$out/gpt.arrows" | head -12
timeout -k 2 30 "$cutrace" cat "$out/modules.arrows" | grep -m1 '"name":"aten::addmm".*shapes' | cut -c1-300

part "report operators (gpt)"
timeout -k 2 30 "$cutrace" report operators "$out/gpt.arrows" | head -24
fi

part "cost of a step of eight Linear layers, microseconds"
timeout -k 2 120 python3 "$here/operators.py" cost "$cutrace" "${ROUNDS:-9}" 90 || wrong=$((wrong + 1))
echo "$wrong programs differ, $SECONDS s"
exit "$wrong"
