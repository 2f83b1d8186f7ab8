#!/bin/bash
# What `record --stack` costs on PyTorch: eight Linear layers, untraced, traced, and traced with the stack of every call, in
# interleaved rounds.
#
#   tests/gpu/stacks_cost.sh [CUTRACE [ROUNDS]]
#
# CUTRACE is $CUTRACE or target/release/cutrace unless named; $BEFORE is an older one to compare with. Prints the least of
# each, the ratios, and a verdict: with --stack at most 1.6 times as long as untraced. Also compares the stacks with those
# of BEFORE: as many different ones, with the same functions in them. Writes ${OUT:-.}/stacks_cost.txt.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cutrace=$(realpath "${1:-${CUTRACE:-$here/../../target/release/cutrace}}")
rounds=${2:-4}
before=${BEFORE:-}
table=$(realpath "${OUT:-.}")/stacks_cost.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$table"
say() { echo "$@" | tee -a "$table"; }
failed=0

loop() { # label, command…
    local label=$1 value
    shift
    value=$("$@" python3 "$here/torch_linear.py" 40 2>>"$work/errors")
    echo "$value" | awk '{ print $NF }' >>"$work/checksums"
    echo "$value" | awk '{ print $2 }' >>"$work/$label"
}
least() { sort -g "$work/$1" | head -n 1; }

for _ in $(seq "$rounds"); do
    loop untraced env
    loop traced "$cutrace" record -q -o "$work/t.arrows" --
    loop preload "$cutrace" record --method preload -q -o "$work/t.arrows" --
    loop stack "$cutrace" record --stack -q -o "$work/stack.arrows" --
    loop preload-stack "$cutrace" record --method preload --stack -q -o "$work/t.arrows" --
    [ -z "$before" ] || loop before-stack "$before" record --stack -q -o "$work/before.arrows" --
done
say "eight Linear layers, microseconds an iteration, least of $rounds interleaved rounds (times untraced)"
for way in untraced traced preload stack preload-stack ${before:+before-stack}; do
    say "$(printf '%-16s %8s   %s' "$way" "$(least $way)" "$(awk "BEGIN { printf \"%.2f\", $(least $way) / $(least untraced) }")")   ($(tr '\n' ' ' <"$work/$way"))"
done
[ "$(sort -u "$work/checksums" | wc -l)" = 1 ] || { failed=1; say "FAILED: results differ"; }
if awk "BEGIN { exit !($(least stack) <= 1.6 * $(least untraced)) }"; then say "verdict: --stack within 1.6 times: yes"
else say "verdict: --stack within 1.6 times: NO"; failed=1; fi

# How many different stacks, and which functions are in them, by name: addresses differ from run to run.
stacks() {
    "$cutrace" cat "$1" | python3 -c '
import json, sys
calls, with_stack, cut, seen = 0, 0, 0, {}
for line in sys.stdin:
    event = json.loads(line)
    if event.get("phase") != "B" or event["type"] != "userspace" or event["name"].startswith("__cuda"):
        continue
    calls += 1
    frames = event.get("stack") or []
    with_stack += bool(frames)
    cut += any(frame.get("kind") == "cut" for frame in frames)
    key = (event["name"],) + tuple((frame.get("sym"), frame.get("line") if frame.get("kind") == "python" else None) for frame in frames)
    seen[key] = seen.get(key, 0) + 1
print(f"{calls} calls, {with_stack} with a stack, {cut} cut short, {len(seen)} different", file=sys.stderr)
# Steady state: those of every iteration.
for key, count in sorted(seen.items(), key=str):
    if count >= 2000:
        print(count, key)
' >"$work/$2" 2>"$work/$2.counts"
    say "$2: $(cat "$work/$2.counts"); trace $(stat -c %s "$1") bytes"
}
stacks "$work/stack.arrows" stacks
if [ -n "$before" ]; then
    stacks "$work/before.arrows" stacks-before
    if cmp -s "$work/stacks" "$work/stacks-before"; then say "verdict: the same stacks as before in the loop ($(wc -l <"$work/stacks") of them): yes"
    else
        say "verdict: the same stacks as before in the loop: NO"; failed=1
        diff "$work/stacks-before" "$work/stacks" | cut -c 1-300 | head -n 10 | tee -a "$table"
    fi
fi
sort "$work/errors" 2>/dev/null | uniq -c | head -n 5
exit $failed
