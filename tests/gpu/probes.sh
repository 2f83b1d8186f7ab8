#!/bin/bash
# Probes inside kernels on a real GPU: the examples with exact counts, what they cost, odd lives.
#   tests/gpu/probes.sh CUTRACE PROGRAMS OBJECTS      see probes.py; the words also go to $OUT/probes.txt
set -u -o pipefail
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null
python3 "$(dirname "$0")/probes.py" "$@" 2>&1 | tee "${OUT:-.}/probes.txt"
