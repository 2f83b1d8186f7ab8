#!/bin/sh
# Managed memory, NVTX ranges and NVML samples on this machine's GPU: what the driver tells of
# migrations is compared with what the programs did.
# usage: uvm.sh CUTRACE FOLDER   (FOLDER: where uvm and nvtx lie, built from tests/gpu/uvm.cu and
# tests/programs/nvtx.cu)
# Needs: python3 (with torch for the last part), a CUDA driver and runtime. Traces go to ${OUT:-docs-out}.
# Root runs all of it a second time as a user without any rights, whose traces are checked and removed.
set -eu
cutrace=$1 folder=$2
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-docs-out}
mkdir -p "$out"
echo "== user $(id -u), capabilities $(awk '$1 == "CapEff:" { print $2 }' /proc/self/status)"
ls -l /dev/nvidia-uvm /dev/nvidia-uvm-tools /dev/nvidia0 /dev/nvidiactl
echo "== managed memory"
"$cutrace" record -v --no-summary -o "$out/uvm.jsonl" "$folder/uvm" 64 >"$out/uvm.txt"
cat "$out/uvm.txt"
python3 "$here/uvm_check.py" "$out/uvm.jsonl" "$(cut -d' ' -f1 "$out/uvm.txt")"
if [ "$(id -u)" = 0 ]; then
    echo "== much managed memory, every method: nothing is dropped"
    "$cutrace" record -v --no-summary --method=all -o "$out/uvm_heavy.arrows" "$folder/uvm" 4096 2>"$out/uvm_heavy.err"
    grep 'managed memory of' "$out/uvm_heavy.err"
    grep -q 'managed memory of .* events, 0 lost' "$out/uvm_heavy.err"
    rm -f "$out/uvm_heavy.arrows"
fi
echo "== NVTX"
"$cutrace" record --no-summary -o "$out/nvtx.jsonl" "$folder/nvtx" 5
python3 "$here/uvm_check.py" --ranges "$out/nvtx.jsonl"
if python3 -c 'import torch' 2>/dev/null; then
    echo "== NVTX in PyTorch"
    "$cutrace" record --no-summary -o "$out/torch_nvtx.jsonl" python3 "$here/torch_nvtx.py"
    python3 "$here/uvm_check.py" --torch "$out/torch_nvtx.jsonl"
fi
if [ "$(id -u)" = 0 ]; then
    # Its own copy of everything: where this folder lies may be closed to others.
    theirs=$(mktemp -d)
    trap 'rm -rf "$theirs"' EXIT
    mkdir "$theirs/out"
    cp "$cutrace" "$folder/uvm" "$folder/nvtx" "$here/uvm.sh" "$here/uvm_check.py" "$here/torch_nvtx.py" "$theirs"
    chown -R 65534:65534 "$theirs"
    cd "$theirs"
    setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs \
        env -u XDG_RUNTIME_DIR -u XDG_CACHE_HOME HOME="$theirs" OUT="$theirs/out" ./uvm.sh ./cutrace .
fi
