/* LD_PRELOAD library that writes down what libcuda asks of the driver: open, ioctl, mmap and close
 * on nvidia* in the folder named by SNIFF_DEVICES (/dev unless told), with the bytes of every
 * request before and after the call. One line a call into the file named by SNIFF_OUT; see `run`
 * for the format. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FDS = 1024, MAX_BYTES = 16384 };

static FILE *out;
static char names[MAX_FDS][32];

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

static FILE *log_file(void) {
    if (!out) {
        const char *path = getenv("SNIFF_OUT");
        out = fopen(path ? path : "/dev/stderr", "we");
        setvbuf(out, NULL, _IOFBF, 1 << 20);
    }
    return out;
}

void sniff_mark(const char *text) {
    fprintf(log_file(), "mark %s\n", text);
    fflush(out);
}

static const char *name_of(int fd) { return fd >= 0 && fd < MAX_FDS && names[fd][0] ? names[fd] : NULL; }

static void opened(const char *path, int flags, int fd) {
    const char *folder = getenv("SNIFF_DEVICES");
    if (!folder) folder = "/dev";
    size_t length = strlen(folder);
    if (strncmp(path, folder, length) != 0 || strncmp(path + length, "/nvidia", 7) != 0) return;
    const char *name = path + length + 1;
    fprintf(log_file(), "open %s %#x = %d\n", name, flags, fd);
    if (fd >= 0 && fd < MAX_FDS) snprintf(names[fd], sizeof names[fd], "%s", name);
}

#define OPEN(function)                                                       \
    int function(const char *path, int flags, ...) {                        \
        va_list list;                                                        \
        va_start(list, flags);                                               \
        mode_t mode = va_arg(list, mode_t);                                  \
        va_end(list);                                                        \
        int (*real)(const char *, int, mode_t) = next(#function);            \
        int fd = real(path, flags, mode);                                    \
        opened(path, flags, fd);                                             \
        return fd;                                                           \
    }
OPEN(open)
OPEN(open64)

int openat(int at, const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    mode_t mode = va_arg(list, mode_t);
    va_end(list);
    int (*real)(int, const char *, int, mode_t) = next("openat");
    int fd = real(at, path, flags, mode);
    opened(path, flags, fd);
    return fd;
}

int close(int fd) {
    int (*real)(int) = next("close");
    if (name_of(fd)) {
        fprintf(log_file(), "close %s %d\n", names[fd], fd);
        names[fd][0] = 0;
    }
    return real(fd);
}

static void mapped(void *at, size_t length, int prot, int flags, int fd, off_t offset, void *got) {
    if (name_of(fd))
        fprintf(log_file(), "mmap %s %d at=%p length=%zu prot=%d flags=%#x offset=%#lx = %p\n", names[fd], fd, at,
                length, prot, flags, (long)offset, got);
}

void *mmap(void *at, size_t length, int prot, int flags, int fd, off_t offset) {
    void *(*real)(void *, size_t, int, int, int, off_t) = next("mmap");
    void *got = real(at, length, prot, flags, fd, offset);
    mapped(at, length, prot, flags, fd, offset, got);
    return got;
}

void *mmap64(void *at, size_t length, int prot, int flags, int fd, off64_t offset) {
    void *(*real)(void *, size_t, int, int, int, off64_t) = next("mmap64");
    void *got = real(at, length, prot, flags, fd, offset);
    mapped(at, length, prot, flags, fd, offset, got);
    return got;
}

/* Reads our own memory through the kernel: a bad pointer is then an error, not a crash. */
static size_t copy(void *to, uint64_t from, size_t size) {
    struct iovec local = {to, size}, remote = {(void *)from, size};
    ssize_t got = size ? process_vm_readv(getpid(), &local, 1, &remote, 1, 0) : 0;
    return got > 0 ? (size_t)got : 0;
}

static void hex(const char *label, const unsigned char *bytes, size_t size) {
    fprintf(out, " %s=", label);
    for (size_t i = 0; i < size; i++) fprintf(out, "%02x", bytes[i]);
}

/* UVM's requests carry no size: bytes by number, as of driver 580. */
static size_t uvm_size(unsigned long cmd) {
    switch (cmd) {
    case 0x30000001: return 16;
    case 23: case 24: case 64: case 77: return 16;
    case 25: return 32;
    case 26: case 38: return 20;
    case 27: return 56;
    case 28: return 28;
    case 29: case 30: return 36;
    case 31: return 32;
    case 33: return 9264;
    case 34: case 35: case 43: case 44: case 45: case 70: case 71: case 72: case 73: return 24;
    case 37: case 42: case 46: case 47: case 65: case 66: case 74: return 40;
    case 39: case 75: return 8;
    case 40: case 41: return 272;
    case 51: return 80;
    case 53: return 32;
    case 67: case 69: return 4;
    case 68: return 9248;
    default: return 64;
    }
}

/* libcuda leaves the size of allocation parameters to the class: bytes as of driver 580. */
static uint32_t class_size(uint32_t number) {
    switch (number) {
    case 0x2080: case 0x2081: case 0x503c: case 0xcb33: return 4;
    case 0xde: case 0xc8b5: case 0xcbc0: return 8;
    case 0x9067: case 0x83de: return 12;
    case 0x79: return 24;
    case 0x80: case 0x90f1: return 56;
    case 0x3e: case 0x40: case 0x50a0: return 128;
    case 0xa06c: return 20;
    case 0xc86f: return 368;
    default: return 32;
    }
}

int ioctl(int fd, unsigned long cmd, ...) {
    va_list list;
    va_start(list, cmd);
    uint64_t arg = va_arg(list, uint64_t);
    va_end(list);
    int (*real)(int, unsigned long, uint64_t) = next("ioctl");
    const char *name = name_of(fd);
    if (!name) return real(fd, cmd, arg);

    static __thread unsigned char before[MAX_BYTES], after[MAX_BYTES], in[MAX_BYTES], reply[MAX_BYTES];
    int uvm = strncmp(name, "nvidia-uvm", 10) == 0;
    size_t size = uvm ? uvm_size(cmd) : (cmd >> 16) & 0x3fff;
    size = copy(before, arg, size);
    unsigned number = cmd & 0xff;
    uint64_t inner = 0;
    uint32_t inner_size = 0;
    if (!uvm && number == 0x2a && size == 32) {
        memcpy(&inner, before + 16, 8);
        memcpy(&inner_size, before + 24, 4);
    } else if (!uvm && number == 0x2b && size == 48) {
        memcpy(&inner, before + 16, 8);
        memcpy(&inner_size, before + 32, 4);
        uint32_t class;
        memcpy(&class, before + 12, 4);
        if (inner && !inner_size) inner_size = class_size(class);
    }
    size_t held = copy(in, inner, inner_size < MAX_BYTES ? inner_size : MAX_BYTES);

    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    int result = real(fd, cmd, arg);
    clock_gettime(CLOCK_MONOTONIC, &end);
    copy(after, arg, size);
    copy(reply, inner, held);
    long ns = (end.tv_sec - start.tv_sec) * 1000000000L + end.tv_nsec - start.tv_nsec;
    flockfile(log_file());
    fprintf(out, "ioctl %s %d %#lx = %d ns=%ld", name, fd, cmd, result, ns);
    hex("before", before, size);
    if (memcmp(before, after, size)) hex("after", after, size);
    if (held) hex("in", in, held);
    if (held && memcmp(in, reply, held)) hex("reply", reply, held);
    fputc('\n', out);
    funlockfile(out);
    return result;
}
