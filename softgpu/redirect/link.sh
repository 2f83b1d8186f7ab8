#!/bin/sh
# Links the static library into the one that `cutrace softgpu` and `--sim` preload: nothing of it is visible
# but the function that objects call before their constructors run, and the one that AddressSanitizer asks.
#   link.sh LIBREDIRECT_A OUTPUT
set -e
map=$(mktemp)
trap 'rm -f "$map"' EXIT
echo '{ global: __gmon_start__; __asan_default_options; local: *; };' > "$map"
"${CC:-cc}" -shared -o "$2" -Wl,--whole-archive "$1" -Wl,--no-whole-archive \
    -Wl,-soname,libcutrace_redirect.so -Wl,--version-script="$map" -Wl,--gc-sections -Wl,--hash-style=both \
    -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,now -Wl,-z,nodelete -Wl,--strip-debug -lpthread -ldl -lgcc_s -lc
