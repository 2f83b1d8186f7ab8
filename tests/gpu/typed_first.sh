#!/bin/bash
# What people type first, on a real GPU: hooks on the command line, --kernel, attaching, the recipes, probes on PyTorch.
#
#   tests/gpu/typed_first.sh CUTRACE PROGRAMS      PROGRAMS: the test programs (target/programs)
#
# Each part prints what its user sees, cut to the lines that matter, and checks what can be checked. Ends with 1 if something is wrong.
# PARTS=attach runs that part alone.
set -u
cutrace=$(realpath "${1:?usage: typed_first.sh CUTRACE PROGRAMS}")
programs=$(realpath "${2:?usage: typed_first.sh CUTRACE PROGRAMS}")
work=$(mktemp -d)
cd "$work" || exit 1
wrong=0
part() { printf '\n=== %s\n' "$*"; }
must() { # WORDS COMMAND…: the command must succeed
    local words=$1
    shift
    "$@" && echo "right: $words" || { echo "WRONG: $words"; wrong=$((wrong + 1)); }
}
lines() { # FILE EXPRESSION [WHAT]: prints WHAT of each line for which the expression of `e` holds
    python3 -c 'import json, sys
for text in open(sys.argv[1]):
    e = json.loads(text)
    if eval(sys.argv[2]):
        print(eval(sys.argv[3]) if len(sys.argv) > 3 else text.strip())' "$@"
}
launch='e["type"] == "kernel" and e.get("op") == "launch"'
cat >train.py <<'P'
import sys, time, torch
layers = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
x = torch.randn(32, 1024, device="cuda")
until = time.time() + float(sys.argv[1])
steps = 0
while time.time() < until:
    layers(x).sum().backward()
    steps += 1
    if steps % 50 == 0:
        torch.cuda.synchronize()
torch.cuda.synchronize()
print("steps", steps)
P

if [ "${PARTS:-all}" != attach ]; then
part "--hook =hist(duration) and =count"
"$cutrace" record -o hooks.jsonl --hook 'uprobe:libcuda.so:cuLaunchKernel=hist(duration)' --hook 'uprobe:libcuda.so:cuMemAlloc*=count' \
    -- "$programs/static/vector_add" >hooks.txt 2>&1
grep -vE '^(Note|Cost|Hooked|Tracer)' hooks.txt | tail -40
launches=$(lines hooks.jsonl "$launch" | wc -l)
must "the histogram has the $launches launches that preload saw" grep -qE "@" hooks.txt

part "--kernel: ioctls by eBPF"
"$cutrace" record --kernel -o kernel.jsonl -- "$programs/static/vector_add" >kernel.txt 2>&1
grep -A4 'KERNEL SPACE' kernel.txt
"$cutrace" record --method=preload,syscall -o traced.jsonl -- "$programs/static/vector_add" >traced.txt 2>&1
echo "by ptrace:"
grep -A3 'KERNEL SPACE' traced.txt

part "the idle recipe, on a program of the runtime"
must "as many lines as launches" test "$(lines traced.jsonl 'e["type"] == "kernel" and e["name"] == "cuLaunchKernel"' | wc -l)" = \
    "$(lines traced.jsonl "$launch" | wc -l)"
lines traced.jsonl "$launch" | head -1
"$cutrace" record -e cudaLaunchKernel -o only.jsonl -- "$programs/static/vector_add" >/dev/null 2>&1
must "-e cudaLaunchKernel finds launches" test "$(lines only.jsonl "$launch" | wc -l)" -gt 0
fi

part "attach to PyTorch that runs already"
python3 train.py 14 >train.txt 2>&1 &
pid=$!
sleep 8
began=$(date +%s)
timeout 40 "$cutrace" record -p $pid -d 2 -o attached.jsonl >attached.txt 2>&1
took=$(($(date +%s) - began))
wait $pid
cat train.txt
must "cutrace is done soon after its two seconds ($took s)" test $took -lt 15
must "it has a summary" grep -q 'Total CUDA API calls' attached.txt
grep -E 'Step|Total CUDA|launches|lost|Note' attached.txt | head
lines attached.jsonl "$launch" 'e["kernel"]' | sort | uniq -c | sort -rn >kernels.txt
cut -c1-140 kernels.txt | head -12
# Those that cuBLAS got from the driver before: attached_names.sh.
must "PyTorch's own kernels have names" grep -q 'at::native' kernels.txt
must "no kernel is a bare handle" test "$(grep -cE '^ *[0-9]+ 0x' kernels.txt)" = 0

if [ "${PARTS:-all}" != attach ]; then
part "probes on PyTorch: kernels that exist as SASS only"
timeout 60 "$cutrace" gpu count '*' --no-summary -o count.jsonl -- python3 train.py 1 >count.txt 2>&1
tail -12 count.txt | cut -c1-200

part "gpu trace --per-thread, blocks in reports"
timeout 60 "$cutrace" gpu trace --per-thread vectorAdd --no-summary -o threads.jsonl -- "$programs/static/vector_add" >threads.txt 2>&1
tail -6 threads.txt | cut -c1-160
timeout 60 "$cutrace" gpu trace '*' --no-summary -o blocks.jsonl -- "$programs/static/vector_add" >blocks.txt 2>&1
"$cutrace" report gpu blocks.jsonl | grep -iA8 block | head -20
fi

echo
echo "$wrong wrong"
rm -rf "$work"
exit $((wrong > 0))
