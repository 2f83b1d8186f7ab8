#!/bin/bash
# Every script of this folder on this machine's GPU, one after the other, each with a time limit.
#
#   tests/gpu/all.sh FOLDER [PART …]     FOLDER: what tests/gpu/pack made, unpacked
#
# Parts, in the order of what is most worth knowing when time is short, with their limits in seconds, are below.
# Words and figures go to ${OUT:-.}/PART.log; the table at the end says how each part ended, and after how long.
set -u
folder=$(realpath "${1:?usage: all.sh FOLDER [PART …]}")
shift
here=$(cd "$(dirname "$0")" && pwd)
out=$(realpath "${OUT:-.}")
export OUT=$out
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-/usr/local/cuda/lib64:/usr/local/nvidia/lib64}
cutrace=$folder/cutrace
cupti=$folder/cupti.so
calls=$folder/calls
cuda=${CUDA_HOME:-/usr/local/cuda}
cc -O2 -o "$calls" "$here/calls.c" -ldl || exit 1
cc -O2 -pthread -o "$folder/places" "$here/places.c" || exit 1
for found in "$cuda/extras/CUPTI/lib64" "$cuda/targets/x86_64-linux/lib" "$cuda/lib64"; do
    [ -e "$found/libcupti.so" ] && export CUPTI_FOLDER=$found && break
done
cc -O2 -shared -fPIC -I"$cuda/include" -I"$cuda/extras/CUPTI/include" -o "$cupti" "$here/cupti.c" -L"${CUPTI_FOLDER:-.}" -lcupti || echo "no CUPTI to compare with"
nvcc -O2 -arch="${ARCH:-sm_90}" -cudart shared -o "$folder/programs/uvm" "$here/uvm.cu" || echo "uvm was not built"
[ -x "$folder/before" ] && export BEFORE=$folder/before
[ -x "$folder/strace" ] && export STRACE=$folder/strace

part() { # NAME: runs it
    case $1 in
        record_bench) limit 330 record_bench.sh "$cutrace" "$cupti" "$calls" "${ROUNDS:-5}" ;;
        loop) limit 400 loop.sh "$cutrace" "$folder/places" "${ROUNDS:-4}" ;;
        parts) limit 200 parts.sh "$folder/parts" "${ROUNDS:-4}" ;;
        ebpf_bench) limit 300 ebpf_bench.sh "$cutrace" "$folder/bpftrace" "${ROUNDS:-3}" ;;
        syscall) limit 150 syscall.sh "$cutrace" "$out/syscall" ;;
        ebpf) limit 150 ebpf.sh "$cutrace" "$out/ebpf" ;;
        mps) limit 100 mps.sh "$cutrace" ;;
        gpu_times) limit 450 gpu_times.sh "$cutrace" "$cupti" "$calls" ;;
        probes) limit 300 probes.sh "$cutrace" "$folder/programs" "$here/../../examples/gpu" ;;
        record) limit 120 record.sh "$cutrace" "$folder/programs" ;;
        record_torch) limit 330 record_torch.sh "$cutrace" "$cupti" "$folder/programs" ;;
        bpf_semantics) limit 60 bpf_semantics.sh "$folder/bpf" ;;
        stacks) limit 180 stacks.sh "$cutrace" ;;
        frameworks) limit 500 frameworks.sh "$cutrace" ;;
        beside) limit 500 beside.sh "$cutrace" "${BPFTRACE:-}" ;;
        uvm) limit 100 uvm.sh "$cutrace" "$folder/programs" ;;
        fecs) limit 60 fecs.sh "$cutrace" "$folder/programs" ;;
        programs) limit 60 programs.sh "$folder/programs" ;;
        *) echo "there is no part $1" && return 2 ;;
    esac
}
limit() { # SECONDS SCRIPT ARGUMENT…
    local seconds=$1 script=$2
    shift 2
    timeout -k 5 "$seconds" "$here/$script" "$@"
}

parts=("$@")
if [ $# = 0 ]; then
    parts=(record_bench loop parts ebpf_bench syscall ebpf mps gpu_times probes record record_torch bpf_semantics stacks uvm fecs programs frameworks beside)
fi
worst=0
for name in "${parts[@]}"; do
    case $name in
        ebpf_bench) needs=bpftrace ;;
        parts) needs=parts ;;
        *) needs=cutrace ;;
    esac
    if [ ! -x "$folder/$needs" ]; then
        echo "$name: left out, there is no $needs in $folder"
        continue
    fi
    began=$SECONDS
    part "$name" >"$out/$name.log" 2>&1
    status=$?
    [ $status = 0 ] || worst=1
    tail -n 25 "$out/$name.log"
    echo "=== $name: status $status, $((SECONDS - began)) s" | tee -a "$out/all.txt"
done
cat "$out/all.txt"
exit $worst
