"""How every exported cu* function of a library begins: a line each, its name, its size and its first 32
bytes. From this the test of where probes go is made for drivers that no archive has.

usage: exports.py LIBRARY [WHOLE]     WHOLE: a file for whole functions, each after its name and size
"""

import struct
import sys

data = open(sys.argv[1], "rb").read()
sections_at, = struct.unpack_from("<Q", data, 0x28)
size, count = struct.unpack_from("<HH", data, 0x3a)
sections = [struct.unpack_from("<IIQQQQIIQQ", data, sections_at + n * size) for n in range(count)]
programs_at, = struct.unpack_from("<Q", data, 0x20)
size, count = struct.unpack_from("<HH", data, 0x36)
programs = [struct.unpack_from("<IIQQQQQQ", data, programs_at + n * size) for n in range(count)]
DYNSYM, LOAD, FUNCTION = 11, 1, 2


def offset(address):
    for kind, _, at, start, _, length, _, _ in programs:
        if kind == LOAD and start <= address < start + length:
            return address - start + at
    raise ValueError(hex(address))


whole = open(sys.argv[2], "wb") if len(sys.argv) > 2 else None
found = {}
for _, kind, _, _, at, length, link, _, _, _ in sections:
    if kind != DYNSYM:
        continue
    names = sections[link][4]
    for place in range(at, at + length, 24):
        name, info, _, section, value, bytes_ = struct.unpack_from("<IBBHQQ", data, place)
        if info & 15 != FUNCTION or section == 0 or not bytes_:
            continue
        end = data.index(0, names + name)
        text = data[names + name:end].decode()
        if text.startswith("cu"):
            found[text] = (offset(value), bytes_)
for name, (start, bytes_) in sorted(found.items()):
    print(name, bytes_, data[start:start + min(32, bytes_)].hex())
    if whole:
        whole.write(f"{name} {bytes_}\n".encode() + data[start:start + bytes_])
