#!/usr/bin/env python3
"""Records what the UVM driver puts into its event queue while a program runs, byte for byte: the
fixture that the decoder is tested with.

uvm_queue.py OUTPUT PROGRAM [ARGUMENT...]

Writes OUTPUT (entries of 72 bytes, gzipped) and prints what the driver answered. Drivers from 565 on."""
import ctypes
import fcntl
import gzip
import mmap
import os
import struct
import subprocess
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
PIDFD_OPEN, PIDFD_GETFD = 434, 438
ENTRY, ENTRIES = 72, 1 << 16


def uvm_descriptors(pid):
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.readlink(f"/proc/{pid}/fd/{name}") == "/dev/nvidia-uvm":
                found.append(int(name))
        except OSError:
            pass
    return sorted(found)


def ioctl(fd, command, params):
    fcntl.ioctl(fd, command, params, True)
    return params


def attach(pid):
    pidfd = libc.syscall(PIDFD_OPEN, pid, 0)
    for number in uvm_descriptors(pid):
        uvm = libc.syscall(PIDFD_GETFD, pidfd, number, 0)
        if uvm < 0:
            print(f"descriptor {number}: pidfd_getfd: errno {ctypes.get_errno()}")
            continue
        tools = os.open("/dev/nvidia-uvm-tools", os.O_RDWR)
        queue = mmap.mmap(-1, ENTRY * ENTRIES)
        control = mmap.mmap(-1, 4096)
        address = [ctypes.addressof(ctypes.c_char.from_buffer(memory)) for memory in (queue, control)]
        params = bytearray(struct.pack("<QQQ16sIII", address[0], ENTRIES, address[1], bytes(16), 1, uvm, 0xffff) + bytes(64))
        ioctl(tools, 76, params)
        status = struct.unpack_from("<I", params, 48)[0]
        print(f"descriptor {number}: INIT_EVENT_TRACKER_V2: NV_STATUS {status:#x}")
        if status == 0:
            enable = bytearray(struct.pack("<QII", 0x7FFE, 0xFFFF, 0))
            ioctl(tools, 58, enable)
            print(f"ENABLE_EVENTS: NV_STATUS {struct.unpack_from('<I', enable, 8)[0]:#x}")
            return uvm, tools, queue, control
        os.close(tools)
    return None


def main():
    output, command = sys.argv[1], sys.argv[2:]
    program = subprocess.Popen(command)
    attached = None
    began = time.monotonic()
    while attached is None and program.poll() is None:
        try:
            attached = attach(program.pid) if uvm_descriptors(program.pid) else None
        except OSError as why:
            print("attach:", why)
        time.sleep(0.005)
    print(f"attached after {time.monotonic() - began:.3f} s: {attached is not None}")
    if attached is None:
        return
    uvm, _, queue, control = attached
    entries, get = bytearray(), 0

    def drain():
        nonlocal get
        put = struct.unpack_from("<I", control, 12)[0]
        while get != put:
            entries.extend(queue[get * ENTRY : (get + 1) * ENTRY])
            get = (get + 1) % ENTRIES
        struct.pack_into("<II", control, 0, get, get)

    while program.poll() is None:
        drain()
        time.sleep(0.002)
    for command, name in ((77, "UUID_TABLE_V2"), (67, "FLUSH_EVENTS")):
        table = bytearray(512 * 16)
        pointer = ctypes.addressof((ctypes.c_char * len(table)).from_buffer(table))
        params = bytearray(struct.pack("<QII", pointer if command == 77 else 0, 0xFFFF, 0))
        try:
            ioctl(uvm, command, params)
            print(f"{name}: {bytes(params[:12]).hex()} {bytes(table[:48]).hex() if command == 77 else ''}")
        except OSError as why:
            print(f"{name}: {why}")
    time.sleep(0.05)
    drain()
    dropped = sum(struct.unpack_from("<64Q", control, 16))
    kinds = {}
    for place in range(0, len(entries), ENTRY):
        kinds[entries[place]] = kinds.get(entries[place], 0) + 1
    print(f"{len(entries) // ENTRY} entries, {dropped} dropped, by kind {dict(sorted(kinds.items()))}")
    print("raw clock now", time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), "monotonic", time.clock_gettime_ns(time.CLOCK_MONOTONIC))
    with gzip.GzipFile(output, "wb", mtime=0) as file:
        file.write(entries)


main()
