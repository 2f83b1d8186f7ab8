"""Reads names and numbers from one version of the open driver's headers: facts only, no text."""

import re

# Where headers lie in the driver's source, in the order the compiler searches them.
INCLUDE = [
    "src/common/sdk/nvidia/inc",
    "src/common/inc",
    "kernel-open/nvidia-uvm",
    "kernel-open/common/inc",
    "src/nvidia/arch/nvalloc/unix/include",
]
SDK = INCLUDE[0]
GENERATED = "src/nvidia/generated"
KERNEL, UNIX = INCLUDE[3], INCLUDE[4]


def text(path):
    return path.read_text(encoding="utf-8", errors="replace")


def controls(tree):
    """[(id, name, [names its parameters may have])]"""
    pattern = re.compile(
        r"^#define\s+(\w+)\s+\((0x[0-9a-fA-F]+)U?\)\s*/\* finn: Evaluated from \"\(+\w+_INTERFACE_ID << 8([^\"]*)\"",
        re.M,
    )
    found = []
    for path in sorted((tree / SDK / "ctrl").rglob("*.h")):
        for name, number, rest in pattern.findall(text(path)):
            if name.endswith("_NULL"):
                continue
            likely = re.findall(r"(\w+)_MESSAGE_ID", rest)
            likely += [f"{name}_PARAMS", f"{name.replace('_CTRL_CMD_', '_CTRL_')}_PARAMS"]
            found.append((int(number, 16), name, likely))
    return found


def functions(tree):
    """[(id, the driver's function)] of every control that the kernel's part of the driver serves itself:
    some have no name in the headers but this."""
    pattern = re.compile(r'/\*methodId=\*/\s+(0x[0-9a-f]+)u,[^"]*/\*func=\*/\s+"(\w+)"')
    found = {}
    for path in sorted((tree / GENERATED).glob("g_*_nvoc.c")):
        for number, name in pattern.findall(text(path)):
            found.setdefault(int(number, 16), name)
    return sorted(found.items())


def groups(tree):
    """[(class << 8 | category, name)]: what the commands of one class are sorted into."""
    pattern = re.compile(r"^#define\s+(NV([0-9A-F]{4})_CTRL_(?!CMD_)\w+)\s+\((0x[0-9a-fA-F]{2})U?\)", re.M)
    found = {}
    for path in sorted((tree / SDK / "ctrl").rglob("*.h")):
        # Other numbers look the same; a base file has nothing but these, up to its first command.
        head = text(path).split("_CTRL_CMD_NULL")[0]
        if "_CTRL_##cat" not in head:
            continue
        for name, number, category in pattern.findall(head):
            if not name.endswith(("_RESERVED", "_MESSAGE_ID")):
                found.setdefault(int(number, 16) << 8 | int(category, 16), name)
    return sorted(found.items())


def classes(tree):
    """[(id, name)]; of several names for one id the first, which is the one without 'alias'."""
    pattern = re.compile(r"^#define\s+(\w+)\s+\((0x[0-9a-fA-F]+)\)[ \t]*(//.*alias.*)?$", re.M)
    names = {}
    for name, number, alias in pattern.findall(text(tree / "src/nvidia/generated/g_allclasses.h")):
        if not alias:
            names.setdefault(int(number, 16), name)
    return sorted(names.items())


def class_parameters(tree):
    """{class name: the struct its allocation takes}"""
    pattern = re.compile(
        r"RS_ENTRY\(\s*/\* External Class\s*\*/ (\w+),.*?/\* Alloc Param Info\s*\*/ RS_(?:OPTIONAL|REQUIRED)\((\w+)\)",
        re.S,
    )
    entries = text(tree / "src/nvidia/src/kernel/rmapi/resource_list.h").split("RS_ENTRY(")
    pairs = (pattern.search("RS_ENTRY(" + entry) for entry in entries[1:])
    return {pair[1]: pair[2] for pair in pairs if pair}


def escapes(tree):
    """[(number, name)] of the requests to /dev/nvidiactl and /dev/nvidiaN."""
    found = {}
    for name, number in re.findall(r"^#define\s+(NV_ESC_\w+)\s+(0x[0-9A-F]+)", text(tree / UNIX / "nv_escape.h"), re.M):
        found[int(number, 16)] = name
    for file in ("nv-ioctl-numbers.h", "nv-ioctl-numa.h"):
        for name, number in re.findall(
            r"^#define\s+(NV_ESC_\w+)\s+\(NV_IOCTL_BASE \+ (\d+)\)", text(tree / KERNEL / file), re.M
        ):
            found[200 + int(number)] = name
    return sorted(found.items())


def uvm(tree):
    """[(number, name)] of the requests to /dev/nvidia-uvm."""
    folder = tree / "kernel-open/nvidia-uvm"
    found = re.findall(r"^#define\s+(UVM_\w+)\s+UVM_IOCTL_BASE\((\d+)\)", text(folder / "uvm_ioctl.h"), re.M)
    pairs = [(int(number), name) for name, number in found]
    linux = re.findall(r"^#define\s+(UVM_\w+)\s+(0x[0-9a-fA-F]+)", text(folder / "uvm_linux_ioctl.h"), re.M)
    return sorted(pairs + [(int(number, 16), name) for name, number in linux])


def statuses(tree):
    """[(code, name)]"""
    pattern = re.compile(r"^NV_STATUS_CODE\((\w+),\s*(0x[0-9a-fA-F]+)", re.M)
    return sorted((int(code, 16), name) for name, code in pattern.findall(text(tree / SDK / "nvstatuscodes.h")))
