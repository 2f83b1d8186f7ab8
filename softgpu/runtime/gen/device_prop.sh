#!/bin/sh
# Prints sizeof(cudaDeviceProp) and the offset of each field, by the compiler's own account.
#   gen/device_prop.sh INCLUDE_DIR... > exports/device_prop-13.txt
set -e
flags=""
for dir in "$@"; do flags="$flags -I$dir"; done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#include <driver_types.h>\n' | cc -E -P -x c $flags - > "$work/all.h"
{
    printf '#include <stdio.h>\n#include <stddef.h>\n#include <driver_types.h>\nint main(void) {\n'
    printf 'printf("sizeof %%zu\\n", sizeof(struct cudaDeviceProp));\n'
    tr '\n' ' ' < "$work/all.h" | sed 's/.*struct cudaDeviceProp *{//; s/}.*//' | tr ';' '\n' |
        sed 's/\[[0-9]*\]//; s/ *$//; s/.*[ *]//' | grep -v '^reserved$' | grep . |
        while read -r field; do
            printf 'printf("%s %%zu\\n", offsetof(struct cudaDeviceProp, %s));\n' "$field" "$field"
        done
    printf 'return 0; }\n'
} > "$work/print.c"
cc -x c $flags -o "$work/print" "$work/print.c"
"$work/print"
