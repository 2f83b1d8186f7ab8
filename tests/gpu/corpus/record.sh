#!/bin/bash
# Records every program of the corpus on a real GPU, for tests/corpus and docs/FINDINGS.md.
#
#   tests/gpu/corpus/record.sh CUTRACE FOLDER [NAME …]
#
# Leaves FOLDER/NAME.arrows, FOLDER/NAME.txt (the end of the run as its user sees it) and FOLDER/fixtures/NAME.jsonl; and for three
# programs FOLDER/compare.txt: what torch.profiler says of the same steps. PARALLEL programs run at once (1);
# COMPARE names the three (eager compile big).
set -u
cutrace=$(realpath "${1:?usage: record.sh CUTRACE FOLDER [NAME …]}")
folder=$(realpath -m "${2:?usage: record.sh CUTRACE FOLDER [NAME …]}")
shift 2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"
python=(eager compile big graphs streams loading decode leak oom illegal asserts transfer ddp jax cupy triton)
plain=(sample busy tiny syncs churn leaks serial refused)
names=("$@")
[ $# -gt 0 ] || names=("${python[@]}" "${plain[@]}")
nvcc -O2 -arch=sm_90 -o "$folder/plain" "$here/plain.cu" || exit 1

run() {
    local name=$1 command
    if grep -q "static int $name()" "$here/plain.cu"; then
        command=("$folder/plain" "$name")
    else
        command=(python3 "$here/programs.py" "$name")
    fi
    PYTHONUNBUFFERED=1 timeout -k 5 150 "$cutrace" record -o "$folder/$name.arrows" -- "${command[@]}" \
        >"$folder/$name.txt" 2>&1
    echo "status $?" >>"$folder/$name.txt"
}
export -f run
export here folder cutrace
printf '%s\n' "${names[@]}" | xargs -P "${PARALLEL:-1}" -L 1 bash -c 'run "$1"' run
# What torch.profiler says of three of them, for whichever were recorded.
compared=()
for name in ${COMPARE-eager compile big}; do
    [ -e "$folder/$name.arrows" ] && compared+=("$name")
done
[ ${#compared[@]} = 0 ] || "$here/compare.sh" "$cutrace" "$folder" "${compared[@]}"
rm -f "$folder/plain"

# Fixtures: what findings need of each trace.
mkdir -p "$folder/fixtures"
for name in "${names[@]}"; do echo "$name"; done | xargs -P 8 -I NAME bash -c \
    '"$0" cat "$1/NAME.arrows" >"$1/NAME.jsonl" && python3 "$2/trim.py" "$1/NAME.jsonl" "$1/fixtures/NAME.jsonl"; rm -f "$1/NAME.jsonl"' \
    "$cutrace" "$folder" "$here"
ls -l "$folder" "$folder/fixtures"
