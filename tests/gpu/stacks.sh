#!/bin/bash
# `record --stack` around PyTorch, and the demo, on a real GPU.
#
#   tests/gpu/stacks.sh CUTRACE
#
# The same numbers with and without, nothing lost, Python's own frames on the calls, and how much
# longer it takes. Writes ${OUT:-.}/stacks.txt.
set -u
cutrace=$(realpath "${1:?usage: stacks.sh CUTRACE}")
here=$(cd "$(dirname "$0")" && pwd)
table=$(realpath "${OUT:-.}")/stacks.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
: >"$table"
say() { echo "$@" | tee -a "$table"; }
fail() { failed=$((failed + 1)); say "FAILED: $*"; }

for what in inference train graph; do
    python3 "$here/torch_programs.py" $what >"$work/plain" 2>/dev/null
    "$cutrace" record --stack -o "$work/trace.jsonl" -- python3 "$here/torch_programs.py" $what >"$work/traced" 2>"$work/summary"
    status=$?
    [ $status = 0 ] || fail "$what: status $status"
    cmp -s "$work/plain" "$work/traced" || fail "$what: output differs"
    lost=$(sed -n 's/^Events lost: //p' "$work/summary")
    [ "$lost" = 0 ] || fail "$what: $lost lost"
    python3 - "$work/trace.jsonl" "$what" >"$work/stacks" <<'P' || fail "$what: no Python frames on launches"
import collections, json, sys
calls = stacks = python = cut = launches = 0
where = collections.Counter()
for line in open(sys.argv[1]):
    event = json.loads(line)
    # Calls, not what the GPU did for them.
    if event.get("phase") != "B" or event["type"] != "userspace" or event["name"].startswith("__cuda"):
        continue
    calls += 1
    frames = event.get("stack") or []
    stacks += bool(frames)
    cut += any(frame.get("kind") == "cut" for frame in frames)
    names = [f"{frame['sym']}:{frame.get('line')}" for frame in frames if frame.get("kind") == "python"]
    python += bool(names)
    if event["name"].startswith(("cuLaunchKernel", "cudaLaunchKernel")):
        launches += 1
        where[" < ".join(names[:3])] += 1
print(f"{sys.argv[2]}: {calls} calls, {stacks} with a stack, {python} with Python frames, {cut} cut short")
for place, count in where.most_common(4):
    print(f"    {count} launches from {place or '(no Python frame)'}")
# What autograd's own threads launch has no Python frame: they run none.
sys.exit(not any(where))
P
    say "$(cat "$work/stacks")"
done

say
say "8 Linear layers, microseconds an iteration, least of 3 rounds"
best() { # label, command…
    local label=$1 least= value
    shift
    for _ in 1 2 3; do
        value=$("$@" 2>/dev/null | grep -oE '[0-9]+\.[0-9]+' | head -n 1)
        if [ -z "$least" ] || awk "BEGIN { exit !($value < $least) }"; then least=$value; fi
    done
    say "$(printf '%-20s %s' "$label" "$least")"
}
best plain python3 "$here/torch_linear.py"
best cutrace "$cutrace" record -q -o "$work/t.arrows" -- python3 "$here/torch_linear.py"
best "cutrace --stack" "$cutrace" record -q --stack -o "$work/t.arrows" -- python3 "$here/torch_linear.py"

say
(cd "$work" && "$cutrace" demo --gpu) >"$work/demo" 2>&1 || fail "demo --gpu"
for finding in transfer-bound pauses leak; do
    grep -q "\[$finding" "$work/demo" || fail "the demo's $finding was not found"
done
say "$(cat "$work/demo")"
say "$failed failed"
[ $failed = 0 ]
