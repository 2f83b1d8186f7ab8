#!/bin/sh
# Links libgpu_times.a into the library that the driver loads in traced programs: link.sh ARCHIVE OUTPUT
set -e
map=$(mktemp)
trap 'rm -f "$map"' EXIT
echo '{ global: InitializeInjection; cutrace_gpu_times_attach; cutrace_gpu_times_detach; cutrace_stand_ins; cutrace_instead_*; cutrace_original_*; local: *; };' > "$map"
"${CC:-cc}" -shared -o "$2" -Wl,--whole-archive "$1" -Wl,--no-whole-archive \
    -Wl,-soname,libcutrace_gpu_times.so -Wl,--version-script="$map" -Wl,--gc-sections -Wl,-z,nodelete -Wl,--hash-style=both \
    -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,now -Wl,--strip-debug -lpthread -ldl -lm -lgcc_s -lc
