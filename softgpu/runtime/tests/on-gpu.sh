#!/bin/sh
# On a machine with a GPU: runs the programs on NVIDIA's runtime and on ours and compares what
# they print, byte for byte. With RECORD=folder keeps NVIDIA's answers there as fixtures.
#   on-gpu.sh 12|13 PROGRAMS_FOLDER NVIDIA_LIB_FOLDER OUR_LIB_FOLDER
set -eu
major=$1 programs=$2 theirs=$3 ours=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for program in "$programs"/*; do
    name=$(basename "$program")
    LD_LIBRARY_PATH=$theirs "$program" > "$work/theirs" 2>&1 || true
    LD_LIBRARY_PATH=$ours "$program" > "$work/ours" 2>&1 || true
    if diff "$work/theirs" "$work/ours" > "$work/diff"; then
        echo "same $name ($(wc -l < "$work/theirs") lines)"
    else
        echo "DIFFERENT $name"
        cat "$work/diff"
        failed=1
    fi
    [ -z "${RECORD:-}" ] || cp "$work/theirs" "$RECORD/$name-$major.txt"
done
exit $failed
