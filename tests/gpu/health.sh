#!/bin/sh
# NVML's samples of what fleets are watched by: clock limits, the highest clock, ECC errors. Needs a GPU; takes about 5 s.
#   tests/gpu/health.sh target/release/cutrace
set -eu
cutrace=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$cutrace" --method nvml -o "$folder/trace.jsonl" sleep 2
echo "samples: $(grep -c '"name":"nvml"' "$folder/trace.jsonl")"
for name in clock_limits sm_clock_max_mhz ecc_corrected ecc_uncorrected; do
    echo "$name: in $(grep -c "\"$name\"" "$folder/trace.jsonl") samples, first $(grep -o "\"$name\":[0-9]*" "$folder/trace.jsonl" | head -1)"
done
nvidia-smi --query-gpu=clocks_event_reasons.active,clocks.max.sm,ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total --format=csv || true
