#!/bin/bash
# PyTorch's operators on a real GPU, beside torch.profiler: counts by name, the operator of each kernel, and the cost.
#
#   OUT=FOLDER tests/gpu/operators.sh [CUTRACE]      needs python3 with torch; done within 300 s
#
# ROUNDS (5) interleaved rounds of the loop. Ends with the number of programs that differ. CUTRACE is target/release/cutrace if
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

for name in gpt decode compiled graph; do
    part "$name"
    timeout -k 2 90 python3 "$here/operators.py" program $name "$out/$name.profile.json" >$name.profile.txt 2>&1 || tail -3 $name.profile.txt
    timeout -k 2 90 "$cutrace" -o "$out/$name.arrows" -- python3 "$here/operators.py" program $name >$name.txt 2>&1 || tail -5 $name.txt
    grep -E 'Events lost|not recorded|lost' $name.txt | cut -c1-160 | head -4
    timeout -k 2 30 "$cutrace" cat "$out/$name.arrows" | timeout -k 2 60 python3 "$here/operators.py" compare - "$out/$name.profile.json" || wrong=$((wrong + 1))
done

part "report operators (gpt)"
timeout -k 2 30 "$cutrace" report operators "$out/gpt.arrows" | head -24

part "cost of a step of eight Linear layers, microseconds"
: >cost.txt
for round in $(seq "${ROUNDS:-5}"); do
    for way in plain calls operators profiler; do
        case $way in
        plain) command=(python3 "$here/operators.py" linear) ;;
        calls) command=("$cutrace" --method=preload,cupti -q -o cost.arrows -- python3 "$here/operators.py" linear) ;;
        operators) command=("$cutrace" --method=preload,torch,cupti -q -o cost.arrows -- python3 "$here/operators.py" linear) ;;
        profiler) command=(python3 "$here/operators.py" linear profile) ;;
        esac
        echo "$round $way $(timeout -k 2 60 "${command[@]}" 2>/dev/null | grep best_us)" | tee -a cost.txt
    done
done
python3 - <<'END'
import statistics
best = {}
for line in open("cost.txt"):
    words = line.split()
    if len(words) == 6:
        best.setdefault(words[1], []).append(float(words[3]))
plain = min(best.get("plain", [0])) or 1
for way, times in best.items():
    print(f"{way}: least {min(times):.1f} us ({min(times) / plain:.2f} x), median {statistics.median(times):.1f} us")
if "operators" in best and "profiler" in best:
    print("VERDICT cost", "ok" if min(best["operators"]) <= min(best["profiler"]) else "ABOVE torch.profiler")
END
echo "$wrong programs differ, $SECONDS s"
exit "$wrong"
