// Calls without end, as a program makes them that the tracer can hardly follow: three of four are trivial, one is a launch
// with eleven arguments.
//   flood CALLS THREADS [PER_SECOND]
// CALLS and PER_SECOND are of all threads together; without PER_SECOND, as fast as they can. Prints:
//   calls 1000000      how many were made
//   took_s 0.51        the calls themselves, on the clock
//   cpu_s 0.98         the process's own processor time
//   ended 123.456      CLOCK_MONOTONIC, in seconds, when it was done
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

unsigned cuInit(unsigned);
unsigned cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

static long each;
static double pause_ns;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void *calls(void *unused) {
    double begin = now();
    for (long i = 0; i < each; i += 4) {
        cuInit(0);
        cuInit(0);
        cuLaunchKernel(0, 1, 2, 3, 4, 5, 6, 7, (void *)0x88, 0, 0);
        cuInit(0);
        if (pause_ns > 0 && i % 4000 == 0) {
            double ahead = begin + (i + 4) * pause_ns - now();
            if (ahead > 1e5) {
                struct timespec pause = {(long)(ahead / 1e9), (long)ahead % 1000000000L};
                nanosleep(&pause, 0);
            }
        }
    }
    return unused;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int threads = atoi(argv[2]);
    double rate = argc > 3 ? atof(argv[3]) : 0;
    if (threads < 1 || threads > 64) return 2;
    each = (atol(argv[1]) / threads + 3) / 4 * 4;
    pause_ns = rate > 0 ? 1e9 * threads / rate : 0;
    double begin = now();
    pthread_t running[64];
    for (int t = 0; t < threads; t++) pthread_create(&running[t], 0, calls, 0);
    for (int t = 0; t < threads; t++) pthread_join(running[t], 0);
    double took = (now() - begin) / 1e9;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("calls %ld\ntook_s %.3f\n", each * threads, took);
    printf("cpu_s %.6f\n", usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
    printf("ended %.6f\n", now() / 1e9);
    return 0;
}
