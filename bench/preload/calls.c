// Times calls of three kinds, nanoseconds each, the least of fifty portions (what else the machine does
// falls on some of them): "trivial 4.2", "output …", "launch …". With a
// number of threads as second argument: "rate CALLS_PER_SECOND" of trivial calls over all of them.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

unsigned cuInit(unsigned);
unsigned cuMemAlloc_v2(unsigned long *, unsigned long);
unsigned cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

static long count;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void *call(void *unused) {
    for (long i = 0; i < count; i++) cuInit(0);
    return unused;
}

#define PORTIONS 50
#define LEAST(kind, call)                                            \
    do {                                                             \
        double least = 1e18;                                         \
        for (int portion = 0; portion < PORTIONS; portion++) {       \
            begin = now();                                           \
            for (long i = 0; i < count; i++) call;                   \
            double time = (now() - begin) / count;                   \
            if (time < least) least = time;                          \
        }                                                            \
        printf("%s %.2f\n", kind, least);                            \
    } while (0)

int main(int argc, char **argv) {
    count = argc > 1 ? atol(argv[1]) : 1000000;
    int threads = argc > 2 ? atoi(argv[2]) : 0;
    unsigned long pointer;
    double begin;
    if (threads > 0) {
        pthread_t running[64];
        begin = now();
        for (int t = 0; t < threads && t < 64; t++) pthread_create(&running[t], 0, call, 0);
        for (int t = 0; t < threads && t < 64; t++) pthread_join(running[t], 0);
        printf("rate %.0f\n", (double)count * threads / ((now() - begin) / 1e9));
        return 0;
    }
    // The first call makes the ring; it is not what is measured.
    cuInit(0);
    count = (count + PORTIONS - 1) / PORTIONS;
    LEAST("trivial", cuInit(0));
    LEAST("output", cuMemAlloc_v2(&pointer, 64));
    LEAST("launch", cuLaunchKernel(0, 1, 2, 3, 4, 5, 6, 7, (void *)0x88, 0, 0));
    return 0;
}
