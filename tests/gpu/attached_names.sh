#!/bin/bash
# Names of kernels in PyTorch that runs already, on a real GPU: how many launches have names, and where from.
#
#   OUT=FOLDER tests/gpu/attached_names.sh CUTRACE      needs root, python3 with torch; done within 150 s
#
# Then handles of the driver with what they lead to, as $OUT/handles.json (modules of its own) and $OUT/torch_handles.json (some
# of PyTorch's): what the search for names can be tried on.
# The short table is last. Ends with 1 if PyTorch could not be traced, or if a kernel of its own has no name.
set -u
cutrace=$(realpath "${1:?usage: OUT=FOLDER attached_names.sh CUTRACE}")
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
cd "$out" || exit 1
part() { printf '\n=== %s (%s s)\n' "$*" "$SECONDS"; }
wrong=0
table=$out/table.txt
: >"$table"

part "PyTorch, until it is in its loop"
rm -f ready
timeout -k 2 120 python3 "$here/attached_names/loop.py" ready >loop.txt 2>&1 &
loop=$!
while [ ! -e ready ] && [ $SECONDS -lt 60 ] && kill -0 $loop 2>/dev/null; do sleep 0.5; done
tail -5 loop.txt

if [ -e ready ]; then
    pid=$(cat ready)
    part "cutrace -p $pid -d 2"
    timeout -k 2 20 "$cutrace" -p "$pid" -d 2 -o "$out/attached.jsonl" >attached.txt 2>&1
    grep -E 'Total CUDA|launches|lost|Note' attached.txt | cut -c1-200 | head -8
    part "names"
    timeout -k 2 15 "$cutrace" cat "$out/attached.jsonl" | timeout -k 2 15 python3 "$here/attached_names/count.py" names.txt torch_handles.txt
    wrong=$((wrong + PIPESTATUS[1]))
    cut -c1-160 names.txt | head -60
    echo "PyTorch, attached:" >>"$table"
    sed '/^$/q' names.txt >>"$table"
    part "what PyTorch's handles lead to"
    timeout -k 2 20 python3 "$here/attached_names/dump.py" "$out/torch_handles.json" "$pid" torch_handles.txt >dump_torch.txt 2>&1 || echo "dump.py ended with $?" >>dump_torch.txt
    cat dump_torch.txt >>"$table"
else
    echo "PyTorch did not come into its loop"
    echo "PyTorch, attached: did not start" >>"$table"
    wrong=$((wrong + 1))
fi
kill $loop 2>/dev/null
wait $loop 2>/dev/null

part "handles of the driver"
timeout -k 2 20 python3 "$here/attached_names/dump.py" "$out/handles.json" >dump.txt 2>&1 || echo "dump.py ended with $?" >>dump.txt
cat dump.txt >>"$table"

part "table"
cut -c1-160 "$table"
echo "$wrong wrong, $SECONDS s"
exit $((wrong > 0))
