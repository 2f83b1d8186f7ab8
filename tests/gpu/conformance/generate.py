#!/usr/bin/env python3
"""Writes the PTX conformance set: modules of small kernels, their operands, and a list of cases.

usage: generate.py FOLDER [--gzip] [--boundary | --forms]

--boundary writes the second set (boundary.py) in place of the first, --forms the third (forms.py).

FOLDER gets module_NN.ptx, inputs.bin and cases.tsv (the first two with .gz, if asked); see
fixtures/ptx/README.md for their form.
The same Python source gives the same bytes on every machine.
"""

import gzip
import os
import struct
import sys

import boundary
import forms
import scalar
import warp
from values import ROUNDS, Columns

CASES_A_MODULE = 400
SECOND = 8 * ROUNDS  # where a case's second result starts in its area
AREA = 2 * SECOND  # bytes of results a case

HEADER = """.version 8.6
.target sm_90
.address_size 64
"""

ENTRY = """
.visible .entry {name}(.param .u64 inputs, .param .u64 outputs)
{{
.reg .pred %p<16>;
.reg .b16 %h<32>;
.reg .b32 %r<64>, %t;
.reg .b64 %d<64>, %in, %out;
ld.param.u64 %in, [inputs];
ld.param.u64 %out, [outputs];
mov.u32 %t, %tid.x;
mad.wide.u32 %in, %t, 8, %in;
{body}
ret;
}}
"""

PREFIX = {1: "%p", 16: "%h", 32: "%r", 64: "%d"}


def load(number, width, column):
    """Text that brings a source into a register, and the register's name."""
    register = f"{PREFIX[width]}{number}"
    at = f"[%in+{column * 8 * ROUNDS}]"
    if width == 1:
        return [f"ld.global.b32 %r{number}, {at};", f"setp.ne.u32 {register}, %r{number}, 0;"], register
    return [f"ld.global.b{width} {register}, {at};"], register


def store(place, width, register, scratch):
    """Text that stores a result: element `tid` of a tight array, predicates as bytes."""
    bytes_ = max(1, width // 8)
    lines = [f"mad.wide.u32 %d{scratch}, %t, {bytes_}, %out;"]
    at = f"[%d{scratch}+{place * SECOND}]"
    if width == 1:
        return lines + [f"selp.u32 %r{scratch}, 1, 0, {register};", f"st.global.b8 {at}, %r{scratch};"]
    return lines + [f"st.global.b{width} {at}, {register};"]


def scalar_body(case, columns):
    """The kernel of a one-instruction case, and its sources as cases.tsv lists them."""
    lines, operands, listed = [], [], []
    for slot, (pool, width) in enumerate(case.srcs):
        if pool == "imm":
            operands.append(str(width))
            listed.append(f"imm:{width}")
            continue
        column = columns.of(pool, slot)
        text, register = load(slot, width, column)
        lines += text
        operands.append(register)
        listed.append(f"{column}:{width}")
    results = [f"{PREFIX[w]}{10 + i}" for i, w in enumerate(case.dsts)]
    if case.carry:
        kind, direction = case.carry.split(":")
        if direction in ("in", "both"):
            column = columns.of("pred", 3)
            lines.append(f"ld.global.b32 %r20, [%in+{column * 8 * ROUNDS}];")
            # a carry, or a borrow, exactly where the flag is to be set
            lines.append("add.cc.u32 %r21, %r20, 0xffffffff;" if kind == "add" else "sub.cc.u32 %r21, 0, %r20;")
            listed.append(f"{column}:carry")
        lines.append(f"{case.name} {results[0]}, {', '.join(operands)};")
        if direction in ("out", "both"):
            lines.append(f"{kind}c.u32 {results[1]}, 0, 0;")
            lines.append(f"and.b32 {results[1]}, {results[1]}, 1;")
    else:
        lines.append(f"{case.name} {'|'.join(results)}, {', '.join(operands)};")
    for i, (register, width) in enumerate(zip(results, case.dsts)):
        lines += store(i, width, register, 30 + i)
    return lines, listed


def main():
    folder, compress = sys.argv[1], "--gzip" in sys.argv[2:]
    if "--boundary" in sys.argv[2:]:
        scalars, machines = boundary.scalars(), boundary.machines()
    elif "--forms" in sys.argv[2:]:
        scalars, machines = forms.scalars(), forms.machines()
    else:
        scalars, machines = scalar.cases(), warp.cases()
    os.makedirs(folder, exist_ok=True)

    def write(name, data):
        if compress:
            name, data = name + ".gz", gzip.compress(data, 9, mtime=0)
        with open(os.path.join(folder, name), "wb") as out:
            out.write(data)

    columns = Columns()
    entries, listing = [], []

    def add(kind, name, body, dsts, listed, tolerance, outside=""):
        number = len(entries)
        entries.append(outside + ENTRY.format(name=f"case_{number:04}", body="\n".join(body)))
        widths = ",".join(str(w) for w in dsts)
        listing.append("\t".join([f"{number:04}", kind, name, widths, " ".join(listed), tolerance]))

    for case in scalars:
        body, listed = scalar_body(case, columns)
        kind = "carry" if case.carry else "scalar"
        add(kind, case.name, body, case.dsts, listed, case.tolerance)
    for case in machines:
        body, outside, listed = case.text(columns, load, store, f"g{len(entries):04}")
        add("machine", case.name, body, case.dsts, listed, "exact", outside)

    for first in range(0, len(entries), CASES_A_MODULE):
        text = HEADER + "".join(entries[first:first + CASES_A_MODULE])
        write(f"module_{first // CASES_A_MODULE:02}.ptx", text.encode())
    write("inputs.bin", b"".join(struct.pack(f"<{ROUNDS}Q", *column) for column in columns.values))
    with open(os.path.join(folder, "cases.tsv"), "w") as out:
        out.write("\n".join(listing) + "\n")
    print(f"{len(entries)} cases, {len(columns.values)} columns")


if __name__ == "__main__":
    main()
