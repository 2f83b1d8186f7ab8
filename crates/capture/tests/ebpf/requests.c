// Requests to files that are called like the driver's: "requests FOLDER COUNT". What is behind the
// struct's pointer is changed between requests, so that each has its own.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

struct control {
    uint32_t client, object, command, flags;
    uint64_t parameters;
    uint32_t bytes, status;
};

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    char path[4096];
    snprintf(path, sizeof path, "%s/nvidiactl", argv[1]);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return 3;
    static char long_one[8000];
    for (int i = 0; i < atoi(argv[2]); i++) {
        uint32_t small[4] = {i, 1, 2, 3};
        memset(long_one, i, sizeof long_one);
        int is_long = i % 2;
        struct control control = {0xc1d00000 + i, 0x5c000001, 0x20801701, 0,
                                  (uintptr_t)(is_long ? (void *)long_one : (void *)small),
                                  is_long ? sizeof long_one : sizeof small, 0};
        ioctl(file, 0xc020462a, &control);
        // Not the driver's.
        ioctl(1, 0x5413, &control);
    }
    void *memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) return 4;
    close(file);
    return 0;
}
