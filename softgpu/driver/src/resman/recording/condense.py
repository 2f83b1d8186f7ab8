#!/usr/bin/env python3
"""Turns a recording (see `run`) into the files of ../sequences: the steps of start-up, context creation
and context destruction, with what differs from run to run (handles, descriptors, addresses, the GPU's
identity) replaced by names.

    condense.py RECORDING ../sequences
"""

import gzip
import re
import struct
import sys
from pathlib import Path

FILES = {"nvidiactl": "Control", "nvidia0": "Gpu", "nvidia-uvm": "Uvm"}
UUID_OF = 0x2080014A  # the control whose reply holds the GPU's UUID, at byte 12
NAME_OF, SHORT_NAME_OF = 0x20800110, 0x20800111
NAME = "softgpu (software CUDA device)"
# PCI vendor and device, subsystem: not ours to claim. {control or request number: byte ranges}
PCI_IDENTITY = {0xC8: [(12, 16)], 0x20801801: [(0, 8), (12, 16)]}
# Bytes of allocation parameters by class; the recorder may have read past them.
PARAMETERS = {0xCB33: 4, 0x2080: 4, 0x2081: 4, 0x503C: 4, 0xDE: 8, 0xCBC0: 8, 0xC8B5: 8, 0x9067: 12, 0x83DE: 12, 0x79: 24}
# Long replies (topologies, engine lists) are cut: nobody decodes them further.
LONG_REPLY, KEPT_WORDS = 48, 16


def number(bytes_, at, size=4):
    return int.from_bytes(bytes_[at : at + size], "little")


class Call:
    """One line of the recording."""

    def __init__(self, line):
        words = line.split(" ")
        self.kind, self.line = words[0], line
        if self.kind == "ioctl":
            self.file, self.fd, self.request = words[1], int(words[2]), int(words[3], 16)
            fields = dict(word.split("=", 1) for word in words[6:] if "=" in word)
            before, inner = fields["before"], fields.get("in", "")
            self.outer = bytes.fromhex(fields.get("after", before))
            self.inner = bytes.fromhex(fields.get("reply", inner))
            self.uvm = self.file.startswith("nvidia-uvm")
            self.number = self.request if self.uvm else self.request & 0xFF
            if self.is_alloc():
                self.inner = self.inner[: PARAMETERS.get(number(self.outer, 12))]
            if self.is_alloc() and number(self.outer, 12) == 0x79:
                # The reply has a kernel address where the descriptor was.
                self.inner = bytes.fromhex(inner)[:24]
        elif self.kind == "open":
            self.file, self.flags, self.fd = words[1], int(words[2], 16), int(words[4])
        elif self.kind == "close":
            self.fd = int(words[2])
        elif self.kind == "mmap":
            self.fd = int(words[2])
            self.length = int(re.search(r"length=(\d+)", line)[1])
            self.prot = int(re.search(r"prot=(\d+)", line)[1])
            self.address = int(words[-1], 16)

    def is_alloc(self):
        return self.kind == "ioctl" and not self.uvm and self.number == 0x2B

    def is_control(self):
        return self.kind == "ioctl" and not self.uvm and self.number == 0x2A

    def control(self):
        return number(self.outer, 8) if self.is_control() else None


def read(path):
    """{mark: [Call]} in order."""
    opener = gzip.open if path.endswith(".gz") else open
    operations, mark = {}, None
    with opener(path, "rt") as lines:
        for line in map(str.rstrip, lines):
            if line.startswith("mark "):
                mark = line[5:] if line != "mark end" else mark
                operations.setdefault(mark, [])
            else:
                operations[mark].append(Call(line))
    return operations


class Names:
    """What recorded values are called: session names outlive contexts."""

    def __init__(self, uuid):
        self.uuid, self.clients = uuid, {}
        self.handles, self.fds, self.groups, self.mappings, self.hosts = {}, {}, {}, {}, {}
        self.counts = {}

    def new(self, table, value, scope):
        kind = id(table), scope
        slot = self.counts.get(kind, 0)
        self.counts[kind] = slot + 1
        table[value] = f"{scope}({slot})"
        return table[value]


class Condenser:
    def __init__(self, names):
        self.names = names

    def steps(self, calls, scope):
        for call in calls:
            yield from self.step(call, scope)

    def step(self, call, scope):
        names = self.names
        if call.kind == "open":
            slot = names.new(names.fds, call.fd, scope)
            yield f"open({slot}, File::{FILES[call.file]}, {call.flags:#x}),"
        elif call.kind == "close":
            yield f"close({names.fds.pop(call.fd)}),"
        elif call.kind == "mmap":
            slot = names.new(names.mappings, call.address, scope)
            yield f"map({names.fds[call.fd]}, {call.length}, {call.prot}, {slot}),"
        else:
            yield self.request(call, scope)

    def request(self, call, scope):
        names, outer = self.names, bytearray(call.outer)
        if call.is_alloc():
            if number(outer, 0) == 0:
                names.clients[number(outer, 8)] = len(names.clients)
            else:
                names.new(names.handles, number(outer, 8), scope)
        if not call.uvm and call.number == 0x27:
            names.new(names.handles, number(outer, 8), scope)
        if call.uvm and call.number == 23:
            names.new(names.groups, number(outer, 0, 8), scope)
        inner = bytearray(call.inner)
        label = call.control() if call.is_control() else call.number
        for start, end in PCI_IDENTITY.get(label, []):
            (inner if call.is_control() else outer)[start:end] = bytes(end - start)
        if label == NAME_OF:
            inner[4:] = NAME.encode().ljust(len(inner) - 4, b"\0")
        if label == SHORT_NAME_OF:
            inner[:] = b"softgpu".ljust(len(inner), b"\0")
        if call.is_control():
            outer[28:32] = bytes(4)  # one odd status, of a last release
        if len(inner):
            outer[16:24] = bytes(8)
        head = f"ask({names.fds[call.fd]}, {call.request:#x}, {len(outer)}, &[{', '.join(self.words(call, outer, True))}]"
        if not len(inner):
            return f"{head}, 0, &[]),"
        words = list(self.words(call, inner, False))
        if len(words) > LONG_REPLY:
            words = words[:KEPT_WORDS]
        return f"{head}, {len(inner)}, &[{', '.join(words)}]),"

    def fd_at(self, call, outer):
        """Where requests hold descriptors."""
        if not outer:
            return {0x79: {16}}.get(number(call.outer, 12), set()) if call.number == 0x2B and not call.uvm else set()
        if call.uvm:
            # The descriptor of nvidiactl stands before the client's handle, where there is one.
            return {25: {16}, 27: {16}, 33: {9248}, 75: {0}}.get(call.number, set())
        return {0xC9: {0}, 0xCE: {8}, 0xCF: {8}, 0x4E: {48}}.get(call.number, set())

    def words(self, call, data, outer):
        """The non-zero words, named where they mean something that changes."""
        names, at = self.names, 0
        while at < len(data):
            if names.uuid and data[at : at + 16] == names.uuid:
                yield f"uuid({at})"
                at += 16
                continue
            wide = number(data, at, 8) if at % 8 == 0 and at + 8 <= len(data) else 0
            value, size = number(data, at), min(4, len(data) - at)
            if wide in names.mappings and call.number == 0x5E:
                yield f"mapping({at}, {names.mappings[wide]})"
                at += 8
            elif 0x5500_0000_0000 <= wide <= 0x7FFF_FFFF_FFFF:
                slot = names.hosts.setdefault(wide, len(names.hosts))
                yield f"host({at}, {slot})"
                at += 8
            elif call.uvm and call.number in (23, 24) and at == 0:
                yield f"group({at}, {names.groups[wide]})"
                at += 8
            elif at in self.fd_at(call, outer) and value in names.fds:
                yield f"fd({at}, {names.fds[value]})"
                at += 4
            elif value in names.clients:
                yield f"client({at}, {names.clients[value]})"
                at += 4
            elif value in names.handles:
                yield f"handle({at}, {names.handles[value]})"
                at += 4
            else:
                if value:
                    yield f"word({at}, {value:#x})"
                at += size


def well_known(operations, names):
    """The session's objects and descriptors that later calls use."""
    for name, class_, doc in (
        ("DEVICE", 0x80, "The device object."),
        ("SUBDEVICE", 0x2080, "The subdevice object."),
        ("THIRD_PARTY_P2P", 0x503C, "Where allocations are registered for peers' access."),
    ):
        made = [c for c in operations["cuInit"] if c.is_alloc() and number(c.outer, 12) == class_]
        yield name, doc, names.handles[number(made[0].outer, 8)]
    control = next(c.fd for c in operations["cuMemGetInfo"])
    uvm = next(c.fd for c in operations["cuStreamCreate"])
    gpu = next(c.fd for c in operations["cuMemAllocHost 4096"])
    yield "CONTROL_FD", "nvidiactl, for most requests.", names.fds[control]
    yield "GPU_FD", "nvidia0, for allocations of host memory.", names.fds[gpu]
    yield "UVM_FD", "nvidia-uvm.", names.fds[uvm]


def uuid_of(calls):
    for call in calls:
        if call.control() == UUID_OF:
            return call.inner[12:28]
    raise SystemExit("the recording does not tell the GPU's UUID")


def without_foreign(calls, created):
    """Destruction also frees what other calls made in the context: leave that out."""
    handles = {number(c.outer, 8) for c in created if c.is_alloc()}
    handles |= {number(c.outer, 8) for c in created if c.kind == "ioctl" and not c.uvm and c.number == 0x27}
    ranges = {c.outer[:8] for c in created if c.kind == "ioctl" and c.uvm and c.number in (65, 68, 72, 73)}
    for call in calls:
        if call.kind == "ioctl" and call.uvm and call.number == 34 and call.outer[:8] not in ranges:
            continue
        if call.kind == "ioctl" and not call.uvm and call.number == 0x29 and number(call.outer, 8) not in handles:
            continue
        yield call


HEAD = """//! {subject}, recorded on an H200 with driver 580.159.04.
//!
//! Generated by recording/condense.py from recording/h200-580.159.04.txt.gz: do not edit.

"""
# What steps are made of: files use what they need.
WORDS = ["File", "Step", "ask", "client", "close", "fd", "group", "handle", "host", "map", "mapping", "open", "uuid", "word"]


def uses(text):
    """The lines that name what a file's steps are made of."""
    slots = [slot for slot in ("Context", "Session") if f"{slot}(" in text]
    words = [word for word in WORDS if re.search(rf"\b{word}\b", text)]
    slots = slots[0] if len(slots) == 1 else "{" + ", ".join(slots) + "}"
    return f"use crate::resman::steps::Slot::{slots};\nuse crate::resman::steps::{{{', '.join(words)}}};\n\n"


def list_of(name, doc, steps):
    lines = "\n".join(f"    {step}" for step in steps)
    return f"/// {doc}\npub static {name}: &[Step] = &[\n{lines}\n];\n"


def counts(operations, names):
    """How much of everything there is, and which of it others speak of."""
    for name, table in (("HANDLES", names.handles), ("FDS", names.fds), ("GROUPS", names.groups), ("MAPPINGS", names.mappings)):
        count = [names.counts.get((id(table), scope), 0) for scope in ("Session", "Context")]
        yield f"/// How many a session has, and how many a context.\npub const {name}: [usize; 2] = {count};"
    for name, doc, slot in well_known(operations, names):
        yield f"/// {doc}\npub const {name}: Slot = {slot};"
    yield f"/// Host addresses that requests mention.\npub const HOSTS: usize = {len(names.hosts)};"


def main():
    operations, folder = read(sys.argv[1]), Path(sys.argv[2])
    names = Names(uuid_of(operations["cuInit"]))
    condenser = Condenser(names)
    create = operations["cuDevicePrimaryCtxRetain"]
    # Seen with the process's first context only.
    first = [c for c in create if c.control() == 0x2080200A or (c.kind == "ioctl" and c.uvm and c.number == 25)]
    rest = [c for c in create if c not in first]
    # In the order of time: names are given as they appear.
    init = list_of("INIT", "cuInit", condenser.steps(operations["cuInit"], "Session"))
    first = list_of("FIRST_CONTEXT", "What only the first context of a process needs.", condenser.steps(first, "Session"))
    context = list_of("CONTEXT", "cuCtxCreate, cuDevicePrimaryCtxRetain", condenser.steps(rest, "Context"))
    destroy = without_foreign(operations["cuDevicePrimaryCtxRelease"], create)
    destroy = list_of("DESTROY", "cuCtxDestroy, cuDevicePrimaryCtxRelease", condenser.steps(destroy, "Context"))
    for file, subject, text in (
        ("start_up", "What libcuda asks of the driver when a process begins to use it", init + "\n" + first),
        ("context", "What libcuda asks of the driver for a context", context),
        ("destruction", "What libcuda asks of the driver at a context's end", destroy),
    ):
        (folder / f"{file}.rs").write_text(HEAD.format(subject=subject) + uses(text) + text)
    (folder / "slots.rs").write_text(
        HEAD.format(subject="The objects, files and mappings of what libcuda asks")
        + "use crate::resman::steps::Slot::{self, Session};\n\n"
        + "\n".join(counts(operations, names))
        + "\n"
    )


main()
