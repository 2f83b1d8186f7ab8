"""Asks the C compiler how the driver's structs lie in memory, and says it in the tables' words.

A struct is `name:offset:type` by commas. A type is a kind with its bytes (u4, i4, h4 handle, p8
pointer, s4 status, b1 bool, e4 enum, f4 float), c64 text, uuid, {…}16 a struct of 16 bytes,
(…)144 a union; `*8` behind it is an array of eight.
"""

import io
import re
import subprocess
import tempfile
from pathlib import Path

from elftools.elf.elffile import ELFFile

from headers import INCLUDE, SDK

FIRST = ["nvtypes.h", "nvstatus.h", "nvos.h"]
LAST = [
    "nv-ioctl.h",
    "nv-ioctl-numa.h",
    "nv-unix-nvos-params-wrappers.h",
    "uvm_ioctl.h",
    "uvm_linux_ioctl.h",
]
# Where the driver has it: 535 does not.
OPTIONAL = ["nv-ioctl-lockless-diag.h"]
KINDS = {"NvHandle": "h", "NvP64": "p", "NV_STATUS": "s", "NvBool": "b"}
UUIDS = {"NvProcessorUuid", "NvUuid"}
# Statuses that the headers declare as plain numbers of these types.
STATUS_MEMBERS = {"status", "Status", "rmStatus", "adapterStatus"}
STATUS_TYPES = {"NvU32", "NvV32"}
HANDLE_MEMBER = re.compile(r"h(?!Class)[A-Z]")
# Structs are followed so deep: nothing that is shown lies deeper.
DEEPEST = 4


class Layouts:
    """Every struct of one version of the driver, by name."""

    def __init__(self, tree):
        self.entries, self.known = {}, {}
        with tempfile.TemporaryDirectory() as folder:
            compiled = Path(folder) / "headers.o"
            self._compile(tree, compiled)
            elf = ELFFile(io.BytesIO(compiled.read_bytes()))
        for unit in elf.get_dwarf_info().iter_CUs():
            for entry in unit.get_top_DIE().iter_children():
                if entry.tag == "DW_TAG_typedef":
                    self.entries[_name(entry)] = entry

    def get(self, name):
        """(bytes, members) of a struct; of a plain number, one member called value."""
        if name in self.entries and name not in self.known:
            self.known[name] = self._layout(name, _plain(self.entries[name]))
        return self.known.get(name)

    def _compile(self, tree, output):
        names = list(FIRST)
        for folder in ("ctrl", "alloc", "class"):
            names += sorted(str(path.relative_to(tree / SDK)) for path in (tree / SDK / folder).rglob("*.h"))
        names += LAST
        names += [name for name in OPTIONAL if any((tree / folder / name).exists() for folder in INCLUDE)]
        command = ["gcc", "-x", "c", "-", "-c", "-w", "-gdwarf-4", "-fno-eliminate-unused-debug-types"]
        command += ["-o", str(output), *(f"-I{tree / folder}" for folder in INCLUDE)]
        source = "#include <stddef.h>\n#include <stdint.h>\n" + "".join(f'#include "{name}"\n' for name in names)
        done = subprocess.run(command, input=source, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"gcc could not read the headers in {tree}:\n{done.stderr[:4000]}")

    def _layout(self, name, plain):
        if plain is None or "DW_AT_byte_size" not in plain.attributes:
            return None
        size = plain.attributes["DW_AT_byte_size"].value
        if plain.tag == "DW_TAG_structure_type":
            return size, _members(plain, 0)
        return (size, f"value:0:{KINDS.get(name, 'u')}{size}") if plain.tag == "DW_TAG_base_type" else None


def _name(entry):
    return entry.attributes["DW_AT_name"].value.decode() if "DW_AT_name" in entry.attributes else ""


def _target(entry):
    return entry.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in entry.attributes else None


def _plain(entry):
    while entry is not None and entry.tag in ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type"):
        entry = _target(entry)
    return entry


def _members(entry, depth):
    found = []
    for child in entry.iter_children():
        if child.tag != "DW_TAG_member" or "DW_AT_bit_size" in child.attributes:
            continue
        offset = child.attributes["DW_AT_data_member_location"].value if "DW_AT_data_member_location" in child.attributes else 0
        kind = _kind(_target(child), _name(child), depth)
        if kind:
            found.append(f"{_name(child)}:{offset}:{kind}")
    return ",".join(found)


def _kind(entry, member, depth):
    typedef, written = None, None
    while entry is not None and entry.tag in ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type"):
        if entry.tag == "DW_TAG_typedef":
            if _name(entry) in UUIDS:
                return "uuid"
            typedef = typedef or KINDS.get(_name(entry))
            written = written or _name(entry)
        entry = _target(entry)
    if entry is None:
        return None
    size = entry.attributes["DW_AT_byte_size"].value if "DW_AT_byte_size" in entry.attributes else None
    if entry.tag == "DW_TAG_array_type":
        return _array(entry, member, depth)
    if entry.tag == "DW_TAG_pointer_type":
        return "p8"
    if entry.tag == "DW_TAG_enumeration_type":
        return f"e{size}"
    if entry.tag in ("DW_TAG_structure_type", "DW_TAG_union_type"):
        inner = _members(entry, depth + 1) if depth < DEEPEST else ""
        brackets = "{}" if entry.tag == "DW_TAG_structure_type" else "()"
        return f"{brackets[0]}{inner}{brackets[1]}{size}"
    if entry.tag != "DW_TAG_base_type":
        return None
    if member in STATUS_MEMBERS and written in STATUS_TYPES:
        return "s4"
    encoding = entry.attributes["DW_AT_encoding"].value
    number = {5: "i", 6: "i", 4: "f"}.get(encoding, "u")
    if HANDLE_MEMBER.match(member) and (number, size) == ("u", 4):
        number = "h"
    return f"{typedef or number}{size}"


def _array(entry, member, depth):
    count = 1
    for child in entry.iter_children():
        if child.tag == "DW_TAG_subrange_type":
            bound = child.attributes.get("DW_AT_upper_bound")
            if bound is None:
                return None
            count *= bound.value + 1
    element = _target(entry)
    plain = _plain(element)
    if plain.tag == "DW_TAG_base_type" and _name(plain) == "char":
        return f"c{count}"
    kind = _kind(element, "", depth)
    return f"{kind}*{count}" if kind else None
