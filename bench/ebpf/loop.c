// "loop LIBRARY FUNCTION COUNT": nanoseconds a call, each made with zeros.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    void *library = dlopen(argv[1], RTLD_NOW);
    unsigned (*function)(long, long, long) = library ? dlsym(library, argv[2]) : 0;
    if (!function) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    long count = atol(argv[3]);
    struct timespec a, b;
    for (int i = 0; i < 100; i++) function(0, 0, 0);
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (long i = 0; i < count; i++) function(0, 0, 0);
    clock_gettime(CLOCK_MONOTONIC, &b);
    fprintf(stderr, "ns %.0f\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / count);
    return 0;
}
