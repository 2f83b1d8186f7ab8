"""Joins what the versions say into rows with the versions they hold for."""

from pathlib import Path

import headers
from layouts import Layouts

# Requests whose struct is not called after them. Of some the size decides: then the first is usual.
ESCAPE_STRUCTS = {
    "NV_ESC_RM_ALLOC_MEMORY": "nv_ioctl_nvos02_parameters_with_fd",
    "NV_ESC_RM_ALLOC_OBJECT": "NVOS05_PARAMETERS",
    "NV_ESC_RM_FREE": "NVOS00_PARAMETERS",
    "NV_ESC_RM_CONTROL": "NVOS54_PARAMETERS",
    "NV_ESC_RM_ALLOC": "NVOS64_PARAMETERS NVOS21_PARAMETERS",
    "NV_ESC_RM_DUP_OBJECT": "NVOS55_PARAMETERS",
    "NV_ESC_RM_SHARE": "NVOS57_PARAMETERS",
    "NV_ESC_RM_CONFIG_GET": "NVOS13_PARAMETERS",
    "NV_ESC_RM_CONFIG_SET": "NVOS14_PARAMETERS",
    "NV_ESC_RM_CONFIG_GET_EX": "NVOS_CONFIG_GET_EX_PARAMS",
    "NV_ESC_RM_CONFIG_SET_EX": "NVOS_CONFIG_SET_EX_PARAMS",
    "NV_ESC_RM_I2C_ACCESS": "NVOS_I2C_ACCESS_PARAMS",
    "NV_ESC_RM_IDLE_CHANNELS": "NVOS30_PARAMETERS",
    "NV_ESC_RM_VID_HEAP_CONTROL": "NVOS32_PARAMETERS",
    "NV_ESC_RM_ACCESS_REGISTRY": "NVOS38_PARAMETERS",
    "NV_ESC_RM_MAP_MEMORY": "nv_ioctl_nvos33_parameters_with_fd",
    "NV_ESC_RM_UNMAP_MEMORY": "NVOS34_PARAMETERS",
    "NV_ESC_RM_GET_EVENT_DATA": "NVOS41_PARAMETERS",
    "NV_ESC_RM_ALLOC_CONTEXT_DMA2": "NVOS39_PARAMETERS",
    "NV_ESC_RM_ADD_VBLANK_CALLBACK": "NVOS61_PARAMETERS",
    "NV_ESC_RM_MAP_MEMORY_DMA": "NVOS46_PARAMETERS",
    "NV_ESC_RM_UNMAP_MEMORY_DMA": "NVOS47_PARAMETERS",
    "NV_ESC_RM_BIND_CONTEXT_DMA": "NVOS49_PARAMETERS",
    "NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO": "NVOS56_PARAMETERS",
    "NV_ESC_RM_LOCKLESS_DIAGNOSTIC": "NV_LOCKLESS_DIAGNOSTIC_PARAMS",
    "NV_ESC_CARD_INFO": "nv_ioctl_card_info_t",
    "NV_ESC_REGISTER_FD": "nv_ioctl_register_fd_t",
    "NV_ESC_ALLOC_OS_EVENT": "nv_ioctl_alloc_os_event_t",
    "NV_ESC_FREE_OS_EVENT": "nv_ioctl_free_os_event_t",
    "NV_ESC_STATUS_CODE": "nv_ioctl_status_code_t",
    "NV_ESC_CHECK_VERSION_STR": "nv_ioctl_rm_api_version_t",
    "NV_ESC_IOCTL_XFER_CMD": "nv_ioctl_xfer_t",
    "NV_ESC_QUERY_DEVICE_INTR": "nv_ioctl_query_device_intr nv_ioctl_query_device_intr_t",
    "NV_ESC_SYS_PARAMS": "nv_ioctl_sys_params_t",
    "NV_ESC_NUMA_INFO": "nv_ioctl_numa_info_t",
    "NV_ESC_SET_NUMA_STATUS": "nv_ioctl_set_numa_status_t",
    "NV_ESC_EXPORT_TO_DMABUF_FD": "nv_ioctl_export_to_dma_buf_fd_t",
    "NV_ESC_WAIT_OPEN_COMPLETE": "nv_ioctl_wait_open_complete_t",
}

TABLES = ["controls", "groups", "classes", "escapes", "uvm", "status", "structs"]
# Tables whose rows have no struct.
NAMES_ONLY = ["groups.tsv", "status.tsv"]

# Controls that programs cannot ask for: their names are enough.
OF_THE_KERNEL = ["_INTERNAL_", "_VGPU_MGR_"]


def rows(tree):
    """{table: {row}} of one version: a row is a tuple of texts, the first of them its key."""
    layouts, used = Layouts(tree), set()

    def named(candidates):
        found = [name for name in candidates if layouts.get(name)]
        used.update(found)
        return found

    tables = {name: set() for name in TABLES if name != "structs"}
    controls = headers.controls(tree)
    for number, name, likely in controls:
        parameters = [] if any(part in name for part in OF_THE_KERNEL) else named(likely)
        tables["controls"].add((f"{number:08x}", name, " ".join(parameters[:1])))
    # A command without a name in the headers goes by the function that serves it.
    in_headers = {number for number, _, _ in controls}
    for number, name in headers.functions(tree):
        if number not in in_headers:
            tables["controls"].add((f"{number:08x}", name, ""))
    for number, name in headers.groups(tree):
        tables["groups"].add((f"{number:06x}", name))
    parameters = headers.class_parameters(tree)
    for number, name in headers.classes(tree):
        tables["classes"].add((f"{number:04x}", name, " ".join(named([parameters.get(name, "")]))))
    for number, name in headers.escapes(tree):
        tables["escapes"].add((f"{number:02x}", name, " ".join(named(ESCAPE_STRUCTS.get(name, "").split()))))
    for number, name in headers.uvm(tree):
        tables["uvm"].add((f"{number:08x}", name, " ".join(named([f"{name}_PARAMS"]))))
    for code, name in headers.statuses(tree):
        tables["status"].add((f"{code:04x}", name))
    tables["structs"] = {(name, str(layouts.get(name)[0]), layouts.get(name)[1]) for name in used}
    return tables


def ranges(columns, holds):
    """`535-560,570-`: the columns a row holds for; open where the last one is among them."""
    runs, start = [], None
    for at, column in enumerate(columns):
        if column in holds and start is None:
            start = at
        if start is not None and column not in holds:
            runs.append(f"{columns[start]}-{columns[at - 1]}")
            start = None
    if start is not None:
        runs.append(f"{columns[start]}-")
    return ",".join(runs)


def read_versions(path=Path(__file__).resolve().parent / "versions.txt"):
    """[(from, read)]"""
    lines = (line.split() for line in path.read_text().splitlines())
    return [(words[0], words[1]) for words in lines if words and words[0] != "#"]


def write(by_column, columns, out):
    """{column: tables} → one file a table."""
    for table in TABLES:
        holds = {}
        for column in columns:
            for row in by_column[column][table]:
                holds.setdefault(row, set()).add(column)
        first = {row: min(columns.index(column) for column in where) for row, where in holds.items()}
        lines = ["# Generated by crates/nvidia-ioctl/generate from the open driver's headers: do not edit."]
        lines.append("# columns " + " ".join(columns))
        for row in sorted(holds, key=lambda row: (row[0], first[row], row)):
            lines.append("\t".join((row[0], ranges(columns, holds[row]), *row[1:])).rstrip("\t"))
        (out / f"{table}.tsv").write_text("\n".join(lines) + "\n")


def read(path):
    """{column: {row}} of a written table: the opposite of `write`."""
    columns, found = [], {}
    for line in path.read_text().splitlines():
        if line.startswith("# columns "):
            columns = line.split()[2:]
        if line.startswith("#"):
            continue
        key, where, *rest = line.split("\t")
        width = 1 if path.name in NAMES_ONLY else 2
        row = (key, *rest, *[""] * (width - len(rest)))
        for part in where.split(","):
            first, _, last = part.partition("-")
            end = columns.index(last) if last else len(columns) - 1
            for column in columns[columns.index(first) : end + 1]:
                found.setdefault(column, set()).add(row)
    return found
