#!/bin/sh
# Links the static library into the one that is loaded beside the injected library: only what that one
# looks for is visible.
#   link.sh LIBGPU_PROBES_A OUTPUT
set -e
map=$(mktemp)
trap 'rm -f "$map"' EXIT
echo '{ global: cutrace_stand_ins; cutrace_instead_*; cutrace_original_*; local: *; };' > "$map"
"${CC:-cc}" -shared -o "$2" -Wl,--whole-archive "$1" -Wl,--no-whole-archive \
    -Wl,-soname,libcutrace_gpu_probes.so -Wl,--version-script="$map" -Wl,--gc-sections -Wl,--hash-style=both \
    -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,nodelete -Wl,--strip-debug -lpthread -ldl -lm -lgcc_s -lc
