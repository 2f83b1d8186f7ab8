"""What handles of the driver lead to: functions and kernels of small modules, whose names are known.

usage: dump.py FILE                writes JSON of at most 8 MB: the handles, and blocks of memory by address; prints a short
                                   table of the ways that lead from every handle of a kind to its name
       dump.py FILE PID HANDLES    the same of handles of another process, as count.py has listed them
"""

import collections
import ctypes
import json
import os
import sys

NAMES = ["_Z9vectorAddPKfS0_Pf", "_Z5scalePfi", "_ZN2ns4gemmIfLi4EEEvPT_S2_", "triton_poi_fused_add_0"]
HEAD = ".version 7.0\n.target sm_52\n.address_size 64\n"
FIRST, NEXT, TEXT = 1024, 256, 64
MOST_BYTES = 7_500_000

of = int(sys.argv[2]) if len(sys.argv) > 2 else os.getpid()
libc = ctypes.CDLL(None, use_errno=True)
word = ctypes.c_uint64


class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def read(address, size):
    """As cutrace reads it; never across a page at once."""
    done = b""
    while len(done) < size:
        at = address + len(done)
        length = min(size - len(done), 4096 - at % 4096)
        bytes_ = ctypes.create_string_buffer(length)
        local, remote = Piece(ctypes.addressof(bytes_), length), Piece(at, length)
        count = libc.process_vm_readv(of, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
        if count <= 0:
            break
        done += bytes_.raw[:count]
    return done


def call(name, *arguments):
    result = getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments)
    if result:
        raise RuntimeError(f"{name} answers {result}")


def words(block):
    for at in range(0, len(block) - 7, 8):
        value = int.from_bytes(block[at : at + 8], "little")
        if 0x1000 <= value < 1 << 47:
            yield at, value


def load():
    """Two modules and a library, each with kernels of its own."""
    handles = []
    text = lambda names: (HEAD + "".join(f".visible .entry {name}() {{ ret; }}\n" for name in names)).encode()
    for names in (NAMES[:2], NAMES[2:]):
        module = word()
        call("cuModuleLoadData", ctypes.byref(module), text(names))
        for name in names:
            function = word()
            call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            handles.append(("CUfunction", "cuModuleGetFunction", name, function))
    try:
        library = word()
        call("cuLibraryLoadData", ctypes.byref(library), text(NAMES), None, None, 0, None, None, 0)
        for name in NAMES:
            kernel, function = word(), word()
            call("cuLibraryGetKernel", ctypes.byref(kernel), library, name.encode())
            handles.append(("CUkernel", "cuLibraryGetKernel", name, kernel))
            call("cuKernelGetFunction", ctypes.byref(function), kernel)
            handles.append(("CUfunction of a CUkernel", "cuKernelGetFunction", name, function))
    except (RuntimeError, AttributeError) as why:
        print("no library:", why)
    for _, _, _, handle in handles:
        call("cuLaunchKernel", handle, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    call("cuCtxSynchronize")
    return handles


def walk(handle, name, blocks, size):
    """All blocks behind a handle; yields the ways to its name. Without a name, to all that C++ could have made."""
    wanted = name.encode() + b"\0" if name else b"_Z"
    places = [(handle, ())]
    for depth, length in enumerate((FIRST, NEXT, NEXT, TEXT)):
        following = []
        for address, way in places:
            block = blocks.get(address, b"")
            if len(block) < length:
                block = read(address, length)
            last = depth == 3
            whole = block + (read(address + len(block), 64) if b"\0" not in block else b"")
            for at in range(0, len(whole) if depth == 0 else min(len(whole), TEXT), 8):
                if whole.startswith(wanted, at):
                    yield way, at
            if last and not block.startswith(wanted):
                continue
            known = len(blocks.get(address, b""))
            if len(block) > known and 2 * (size[0] + len(block)) < MOST_BYTES:
                size[0] += len(block) - known + 16
                blocks[address] = block
            if not last and address % 8 == 0:
                following.extend((value, way + (at,)) for at, value in words(block))
        places = following[:20_000]


def own():
    """Handles of this process: kind, function that gave it, name, handle."""
    context = word()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    return [(kind, function, name, handle.value) for kind, function, name, handle in load()]


def listed():
    """Handles of another process. Their kernels' names are demangled, so the memory has others."""
    with open(sys.argv[3]) as file:
        kinds = json.load(file)
    return [(kind, kernel, None, int(handle, 16)) for kind, kernels in kinds.items() for handle, kernel in kernels.items()]


def main():
    handles = listed() if len(sys.argv) > 2 else own()
    try:
        driver = open("/proc/driver/nvidia/version").readline().strip()
    except OSError:
        driver = "unknown driver"
    blocks, size, ways = {}, [0], collections.defaultdict(list)
    for kind, _, name, handle in handles:
        ways[kind].append(set(walk(handle, name, blocks, size)))
    common = {kind: sorted(set.intersection(*found), key=lambda way: (len(way[0]), way)) for kind, found in ways.items()}
    with open(sys.argv[1], "w") as file:
        json.dump(
            {
                "driver": driver,
                "handles": [
                    {"kind": kind, "from": origin, "name": name, "handle": hex(handle)}
                    for kind, origin, name, handle in handles
                ],
                "ways": {kind: [{"pointers": list(way), "text": at} for way, at in found] for kind, found in common.items()},
                "blocks": {hex(address): block.hex() for address, block in sorted(blocks.items())},
            },
            file,
        )
    print(f"{driver}; {len(blocks)} blocks, {os.path.getsize(sys.argv[1])} bytes of JSON")
    for kind, found in common.items():
        readable = sum(bool(read(handle, 8)) for one, _, _, handle in handles if one == kind)
        print(f"{kind}: {len(ways[kind])} handles, {readable} can be read, {len(found)} ways to all names")
        for way, at in found[:6]:
            print("    handle" + "".join(f" +{place:#x} ->" for place in way), f"+{at:#x}")


main()
