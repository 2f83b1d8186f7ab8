#!/bin/sh
# Links libcupti.a into libcupti.so.13: link.sh LIBCUPTI_A OUTPUT
set -e
map=$(mktemp)
trap 'rm -f "$map"' EXIT
echo '{ global: cupti*; local: *; };' > "$map"
"${CC:-cc}" -shared -o "$2" -Wl,--whole-archive "$1" -Wl,--no-whole-archive \
    -Wl,-soname,libcupti.so.13 -Wl,--version-script="$map" -Wl,--gc-sections -Wl,-z,nodelete \
    -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,now -Wl,--strip-debug -lpthread -ldl -lm -lgcc_s -lc
