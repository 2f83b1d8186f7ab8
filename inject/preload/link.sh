#!/bin/sh
# Builds and links the injected library: stage one, with the engine at the end of its file.
#   link.sh TARGET_FOLDER OUTPUT_FILE
set -e
target=$1 out=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$target"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# One after the other in one folder: both have the same dependencies.
for stage in stage engine; do
    (cd "$root" && env -u RUSTC_WORKSPACE_WRAPPER ${CARGO:-cargo} rustc --quiet --profile injected --lib --crate-type staticlib \
        --package cutrace-preload --target-dir "$target" -- --cfg "cutrace_$stage" -C panic=abort)
    cp "$target/injected/libpreload.a" "$work/$stage.a"
done
# Nothing is imported, and only what libcuda, NVTX and AddressSanitizer ask an injected library for is
# exported: it must load into any process and change nothing there.
echo '{ global: InitializeInjection; InitializeInjectionNvtx2; __asan_default_options; cutrace_attach; cutrace_detach; cutrace_control; local: *; };' > "$work/exports.map"
link() {
    stage=$1; shift
    ${CC:-cc} -shared -nostdlib -nostartfiles -o "$work/$stage.so" -Wl,--whole-archive \
        "$work/$stage.a" -Wl,--no-whole-archive -Wl,--gc-sections -Wl,--strip-all \
        -Wl,-z,defs -Wl,-z,now -Wl,--hash-style=both -Wl,--build-id=none "-Wl,--version-script=$work/exports.map" "$@"
}
link stage -Wl,-z,initfirst -Wl,-z,nodelete -Wl,-soname,libcutrace_preload.so
link engine -Wl,-e,cutrace_engine -Wl,-z,norelro -Wl,-Bsymbolic
# The engine begins on a page; the last 16 bytes say where, so that stage one finds it.
size=$(stat -c %s "$work/stage.so")
begin=$(( (size + 4095) / 4096 * 4096 ))
cp "$work/stage.so" "$work/whole"
truncate -s "$begin" "$work/whole"
cat "$work/engine.so" >> "$work/whole"
octal() { printf '\\%03o' $(( ($begin >> ($1 * 8)) & 255 )); }
printf "$(octal 0)$(octal 1)$(octal 2)$(octal 3)$(octal 4)$(octal 5)$(octal 6)$(octal 7)CUTENGIN" >> "$work/whole"
chmod 755 "$work/whole"
mv "$work/whole" "$out"
