#!/bin/bash
# bpftime's own GPU programs, as published and compiled elsewhere, under cutrace: exact counts, and a table.
#   tests/gpu/bpftime.sh CUTRACE FOLDER [--sim] [--seconds N] [NAME…]
# FOLDER has objects/NAME.bpf.o and programs/NAME; see bpftime.py. The words also go to $OUT/bpftime.txt.
set -u -o pipefail
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null
python3 "$(dirname "$0")/bpftime.py" "$@" 2>&1 | tee "${OUT:-.}/bpftime.txt"
