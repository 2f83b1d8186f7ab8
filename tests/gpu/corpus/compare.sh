#!/bin/bash
# GPU work as torch.profiler and as cutrace measure it, in runs of their own: beside another client of CUPTI cutrace times by events,
# which is coarser.
#
#   tests/gpu/corpus/compare.sh CUTRACE FOLDER NAME…
#
# Each program runs ROUNDS times (5) under each, in turns and with the same rest before the steps that are compared: the
# GPU's clock moves, and a pause before them is worth some percent. Leaves FOLDER/compare.txt and the end of each run.
set -u
cutrace=$(realpath "${1:?usage: compare.sh CUTRACE FOLDER NAME…}")
folder=$(realpath -m "${2:?usage: compare.sh CUTRACE FOLDER NAME…}")
shift 2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"
export cutrace folder here TURN="$folder/turn" STEPS=${STEPS:-60} REST=${REST:-1}
profiled() {
    python3 "$here/programs.py" "$1" profile "$folder/$1.$2.profile.json" >"$folder/$1.$2.profile.txt" 2>&1
}
traced() {
    local widths=(0 80 120 200)
    COLUMNS=${widths[$2]:-80} "$cutrace" record -o "$folder/$1.$2.arrows" -- python3 "$here/programs.py" "$1" >"$folder/$1.$2.txt" 2>&1
}
export -f profiled traced
# By turns, and in the other order every second round.
for round in $(seq "${ROUNDS:-5}"); do
    for name in "$@"; do
        [ $((round % 2)) = 0 ] && printf '%s\n' "traced $name $round" "profiled $name $round" || printf '%s\n' "profiled $name $round" "traced $name $round"
    done
done | xargs -P "${AHEAD:-4}" -L 1 bash -c '"$@"' run
python3 "$here/compare.py" "$cutrace" "$folder" "$@" | tee "$folder/compare.txt"
rm -f "$folder"/*.profile.json "$folder"/*.[0-9].arrows "$folder/turn"
