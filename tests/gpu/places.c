// Where the processors of this machine lie to each other, which a virtual machine does not say: for each one, what
// it does to work on processor CORE, and how long a line of memory takes from one to the other and back.
//   core 3 busy 1.82 line 21.4     busy beside CORE slows it to 1.82 of the time alone: the same core's other half
// Built without CUDA: cc -O2 -pthread -o places places.c
// "places [CORE]": 2 by default.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static int go_to(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    return sched_setaffinity(0, sizeof set, &set);
}

static _Alignas(128) atomic_int ball, over, ready;
static int other;
static volatile unsigned long sink;

// Four chains of multiplications: as much as one half of a core can do with all of it.
static void work(long rounds) {
    unsigned long a = 1, b = 2, c = 3, d = 4;
    for (long i = 0; i < rounds; i++) {
        a = a * 0x9e3779b97f4a7c15 + i;
        b = b * 0x9e3779b97f4a7c15 + i;
        c = c * 0x9e3779b97f4a7c15 + i;
        d = d * 0x9e3779b97f4a7c15 + i;
    }
    sink = a + b + c + d;
}

static void *busy(void *unused) {
    if (go_to(other) != 0) exit(1);
    atomic_store(&ready, 1);
    while (!atomic_load_explicit(&over, memory_order_relaxed)) work(1000);
    return unused;
}

#define TURNS 20000
static void *answers(void *unused) {
    if (go_to(other) != 0) exit(1);
    atomic_store(&ready, 1);
    for (int turn = 0; turn < TURNS; turn++) {
        while (atomic_load_explicit(&ball, memory_order_acquire) != 2 * turn + 1) {}
        atomic_store_explicit(&ball, 2 * turn + 2, memory_order_release);
    }
    return unused;
}

static double work_time(void) {
    double least = 1e18;
    for (int round = 0; round < 20; round++) {
        double begin = now();
        work(200000);
        double time = now() - begin;
        if (time < least) least = time;
    }
    return least;
}

static pthread_t start(void *(*what)(void *)) {
    pthread_t thread;
    atomic_store(&ready, 0);
    if (pthread_create(&thread, NULL, what, NULL) != 0) exit(1);
    while (!atomic_load(&ready)) usleep(100);
    return thread;
}

int main(int argc, char **argv) {
    int core = argc > 1 ? atoi(argv[1]) : 2;
    if (go_to(core) != 0) {
        perror("sched_setaffinity");
        return 1;
    }
    double alone = work_time();
    int cores = sysconf(_SC_NPROCESSORS_ONLN);
    for (other = 0; other < cores; other++) {
        if (other == core) continue;
        atomic_store(&over, 0);
        pthread_t thread = start(busy);
        double beside = work_time();
        atomic_store(&over, 1);
        pthread_join(thread, NULL);
        atomic_store(&ball, 0);
        thread = start(answers);
        double begin = now();
        for (int turn = 0; turn < TURNS; turn++) {
            atomic_store_explicit(&ball, 2 * turn + 1, memory_order_release);
            while (atomic_load_explicit(&ball, memory_order_acquire) != 2 * turn + 2) {}
        }
        double line = (now() - begin) / TURNS;
        pthread_join(thread, NULL);
        printf("core %d busy %.2f line %.1f\n", other, beside / alone, line);
    }
    return 0;
}
