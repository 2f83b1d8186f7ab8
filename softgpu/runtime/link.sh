#!/bin/sh
# Links libcudart.a into libcudart.so.12 or .13 with NVIDIA's soname and symbol versions.
#   link.sh 12|13 LIBCUDART_A OUTPUT
# The archive must have been built with the matching feature (cuda12 or cuda13).
set -e
major=$1 archive=$2 out=$3
here=$(dirname "$0")
map=$(mktemp)
trap 'rm -f "$map"' EXIT
{
    printf 'libcudart.so.%s {\n  global:\n' "$major"
    sed 's/.*/    &;/' "$here/exports/libcudart-$major.txt"
    printf '  local: *;\n};\n'
} > "$map"
"${CC:-cc}" -shared -o "$out" -Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
    -Wl,-soname,"libcudart.so.$major" -Wl,--version-script="$map" -Wl,--gc-sections \
    -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,now -Wl,--strip-debug -lpthread -ldl -lm -lgcc_s -lc
