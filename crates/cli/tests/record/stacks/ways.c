// One place that calls cuInit, reached in many ways over frames of the same size: the call's argument says which way it
// was, a bit a level. A walk that is mistaken for another shows.
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>

#define STEP __attribute__((noinline, noclone))
#define LEVELS 5
#define BENT 1024 // through frames of another size, which are found by their frame pointer
#define JUMPED 2048

static int (*cuInit)(unsigned);
static volatile int sink;
static __thread jmp_buf back;

STEP void leaf(unsigned way) {
    sink += cuInit(way);
    if (way & JUMPED) longjmp(back, 1);
}

typedef void (*Level)(unsigned);
static const Level levels[LEVELS + 1][2];

// The two of a level differ in nothing but where they are.
#define PAIR(number)                                                                              \
    STEP void zero_##number(unsigned way) { levels[number + 1][way >> (number + 1) & 1](way); sink++; } \
    STEP void one_##number(unsigned way) { levels[number + 1][way >> (number + 1) & 1](way); sink++; }
PAIR(0) PAIR(1) PAIR(2) PAIR(3) PAIR(4)

static const Level levels[LEVELS + 1][2] = {
    {zero_0, one_0}, {zero_1, one_1}, {zero_2, one_2}, {zero_3, one_3}, {zero_4, one_4}, {leaf, leaf},
};

STEP void bent(unsigned way, unsigned bytes) {
    volatile char *room = alloca(16 + bytes);
    room[0] = 1;
    levels[0][way & 1](way);
    sink += room[0];
}

STEP void *all(void *unused) {
    for (unsigned round = 0; round < 40; round++)
        for (unsigned way = 0; way < 1 << LEVELS; way++) {
            // Neighbours in time have little in common.
            unsigned mixed = (way * 11 + round * 7) % (1 << LEVELS);
            if (round % 4 == 3) bent(mixed | BENT, round % 8 * 16);
            else if (round % 4 == 2) {
                if (!setjmp(back)) levels[0][mixed & 1](mixed | JUMPED);
            } else levels[0][mixed & 1](mixed);
        }
    return unused;
}

int main(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    cuInit = (int (*)(unsigned))dlsym(library, "cuInit");
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, all, 0);
    all(0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    puts("done");
    return 0;
}
