// hot THREADS SECONDS: threads that call the driver without a pause, and how often they did. The counts are
// the program's own: what a trace holds and what it counts as lost must add up to them.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int cuInit(unsigned);
int cuDriverGetVersion(int *);
int cuCtxGetCurrent(void **);
int cuDeviceGetCount(int *);

static atomic_int stop;
static atomic_long calls, wrong;

static void *work(void *unused) {
    long own = 0, bad = 0;
    while (!stop) {
        for (int i = 0; i < 10; i++) {
            int version = 0, count = -1;
            void *context = (void *)1;
            bad += cuDriverGetVersion(&version) != 0 || version < 1000;
            bad += cuCtxGetCurrent(&context) != 0 || context != 0;
            bad += cuDeviceGetCount(&count) != 0 || count < 0;
            own += 3;
        }
        // A rate that a tracer on two cores can follow.
        usleep(1000);
    }
    calls += own;
    wrong += bad;
    return unused;
}

int main(int count, char **words) {
    int threads = count > 1 ? atoi(words[1]) : 8;
    double seconds = count > 2 ? atof(words[2]) : 2;
    pthread_t all[64];
    if (cuInit(0) || threads > 64) return 90;
    printf("ready\n");
    fflush(stdout);
    for (int i = 0; i < threads; i++) pthread_create(&all[i], 0, work, 0);
    usleep((useconds_t)(seconds * 1e6));
    stop = 1;
    for (int i = 0; i < threads; i++) pthread_join(all[i], 0);
    printf("calls %ld wrong %ld\n", calls + 1, wrong);
    return 3;
}
