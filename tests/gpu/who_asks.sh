#!/bin/bash
# Which libraries make an ioctl: the backtrace of each, by cuda-gdb, as module names.
#
#   tests/gpu/who_asks.sh REQUEST PROGRAM [ARGUMENT …]
#
# REQUEST is the request's number; 0xc04846d2 (NV_ESC_CHECK_VERSION_STR) is the first thing that every user of the
# driver asks, so that one line comes for each of them in the program.
set -u
request=${1:?usage: who_asks.sh REQUEST PROGRAM [ARGUMENT …]}
shift
gdb=${GDB:-cuda-gdb}
commands=$(mktemp)
trap 'rm -f "$commands"' EXIT
cat >"$commands" <<GDB
set pagination off
set confirm off
set breakpoint pending on
set debuginfod enabled off
break ioctl if \$rsi == $request
commands
silent
printf "asked:\n"
bt 14
continue
end
run
GDB
timeout "${LIMIT:-150}" "$gdb" -nx -batch -x "$commands" --args "$@" 2>&1 |
    grep -E '^(asked:|#[0-9]+ )' | sed -E 's/0x[0-9a-f]+ in //; s/ \(\)//; s/ from / from /'
