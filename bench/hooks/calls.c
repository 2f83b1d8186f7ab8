// "calls COUNT": a loop of cheap driver calls of three functions, on whatever libcuda.so.1 the loader finds.
// Prints nanoseconds of the thread's own processor time a call to standard error: what others run meanwhile does not count.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef int (*function)(void *, long);

int main(int argc, char **argv) {
    long count = argc > 1 ? atol(argv[1]) : 1000;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    function init = (function)dlsym(library, "cuInit");
    function device = (function)dlsym(library, "cuCtxGetDevice");
    function devices = (function)dlsym(library, "cuDeviceGetCount");
    function current = (function)dlsym(library, "cuCtxGetCurrent");
    if (!init || !device || !devices || !current || init(0, 0)) return 2;
    long word = 0;
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (long i = 0; i < count; i++) {
        device(&word, 0);
        if (i % 2 == 0) devices(&word, 0);
        if (i % 4 == 0) current(&word, 0);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    long calls = count + (count + 1) / 2 + (count + 3) / 4;
    fprintf(stderr, "ns %.0f\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / calls);
    return 0;
}
