#!/bin/bash
# Records every program of the corpus on a real GPU, for tests/corpus and docs/FINDINGS.md.
#
#   tests/gpu/corpus/record.sh CUTRACE FOLDER [NAME …]
#
# Leaves FOLDER/NAME.arrows and FOLDER/NAME.txt (the end of the run as its user sees it), and for three programs
# FOLDER/NAME.profile.json: what torch.profiler says of the same steps. PARALLEL programs run at once (1).
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
for name in eager compile transfer; do
    [ -e "$folder/$name.arrows" ] || continue
    python3 "$here/programs.py" "$name" profile "$folder/$name.profile.json" >"$folder/$name.profile.txt" 2>&1
done
rm -f "$folder/plain"
ls -l "$folder"
